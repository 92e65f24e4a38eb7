"""The command `choirctl agent start-job`: a core job that no model was asked to start."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import orjson
import typer

from choir_client import Job
from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.core_jobs import ContextBundle, JobOptions, ToolConstraints
from choir_common.wire.events import CoreStopped
from choir_common.wire.model import JsonObject
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import AgentId, ConversationName
from choirctl.output.printing import print_json, stderr_console
from choirctl.output.state_words import state_text

Texts = list[str] | None
SchemaFile = Annotated[Path | None, typer.Option(metavar="FILE", help="JSON Schema of the result.")]


def start_job(
    ctx: typer.Context,
    agent: AgentId,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The task, as a complete instruction.")
    ],
    job_name: Annotated[
        str | None, typer.Option("--name", help="Lower-case letters, digits and hyphens.")
    ] = None,
    dm: ConversationName = None,
    fact: Annotated[Texts, typer.Option(help="A fact that the job needs.")] = None,
    allow_tool: Annotated[
        Texts, typer.Option(help="The only tools that it may use, such as choir.fs.read.")
    ] = None,
    time_limit_s: Annotated[
        int, typer.Option("--time-limit", min=0, help="Seconds after which it ends; 0: no limit.")
    ] = 0,
    schema: SchemaFile = None,
    harness: Annotated[str | None, typer.Option(help="The coding agent that does it.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option("--key", help="A repetition with this key starts no second job.")
    ] = None,
    wait_s: Annotated[
        float | None, typer.Option("--wait", min=0, help="Seconds to wait for the result.")
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start a core job with a task.

    The agent's model is not asked. The job sees nothing of the conversation, and reports there. With --wait,
    prints the result, and exits 1 if the job did not complete.
    """
    if not text.strip():
        raise InvalidRequest(_("TEXT is empty."))
    limits = ToolConstraints(
        allowed_tools=tuple(allow_tool or ()), time_budget_ms=time_limit_s * 1000
    )
    options = JobOptions(
        name=job_name,
        context_bundle=ContextBundle(facts=tuple(fact or ())),
        tool_constraints=limits,
        output_schema=_read_schema(schema),
        harness=harness,
    )
    start = _JobStart(agent, text, dm, options, idempotency_key)
    job, end = asyncio.run(_run(find_target(ctx, home, url), start, wait_s))
    _print(job, end, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _JobStart:
    """What is to be started."""

    agent: str
    text: str
    dm: str | None
    options: JobOptions
    key: str | None


async def _run(
    place: Target, start: _JobStart, wait_s: float | None
) -> tuple[Job, CoreStopped | None]:
    async with connect(place) as api:
        job = await api.jobs.start(
            start.agent,
            start.text,
            dm=start.dm,
            options=start.options,
            idempotency_key=start.key,
        )
        return job, None if wait_s is None else await api.jobs.wait(job, wait_s)


def _read_schema(file: Path | None) -> JsonObject | None:
    if file is None:
        return None
    try:
        schema = orjson.loads(file.read_bytes())
    except OSError as error:
        raise InvalidRequest(
            _("{file} cannot be read: {strerror}.").format(file=file, strerror=error.strerror)
        ) from error
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            _("{file} is not JSON: {error}").format(file=file, error=error)
        ) from error
    if not isinstance(schema, dict):
        raise InvalidRequest(_("{file} is no JSON object.").format(file=file))
    return schema


def _print(job: Job, end: CoreStopped | None, *, as_json: bool) -> None:
    if as_json:
        names = {"job_id": job.job_id, "name": job.name, "session_id": job.session_id}
        print_json(names if end is None else names | {"outcome": end.outcome, "result": end.result})
    elif end is None:
        stderr_console().print(
            _("Core job {name} ({job_id}) is started; it reports in the conversation.").format(
                name=job.name, job_id=job.job_id
            ),
            markup=False,
        )
    elif end.result is not None:
        print_json(end.result)
    if end is not None and end.outcome != "completed":
        raise ChoirError(
            _("The job ended as {outcome}: {reason}").format(
                outcome=state_text(end.outcome), reason=end.reason or _("no reason was given")
            )
        )
