"""`choir.core.spawn`: start a core job with a task and its own briefing.

Only for the edge lane. The CoreStarted event in the output starts the job: its runner is notified of that
event. The job's id is derived from the call's id, so repeating a call that a crash interrupted does not start
a second job.
"""

import re
from typing import Protocol

import orjson

from choir_agent.budgets.limits import core_job_refusal
from choir_agent.locks.claim import EDGE_EFFECTS
from choir_agent.log.session_state import SessionState, SessionStateSource
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.clock import Clock
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.json_schema import find_schema_fault
from choir_common.wire.config import AgentSettings, Budgets
from choir_common.wire.core_jobs import (
    JOB_NAME_PATTERN,
    MAX_BUNDLE_BYTES,
    MAX_TASK,
    ContextBundle,
    ToolConstraints,
    Verbosity,
)
from choir_common.wire.events import CoreStarted
from choir_common.wire.model import JsonObject
from choir_common.wire.prompt_marks import format_sent_line

HARNESS = "harness"
"""The argument that names a harness; models are offered it only if there is one (`harness_argument`)."""

_TEXTS: JsonObject = {
    "type": "array",
    "items": {"type": "string", "maxLength": MAX_TASK},
    "maxItems": 100,
}
MANIFEST = ToolManifest(
    LlmView(
        name="choir.core.spawn",
        description=(
            "Start a background core job for work that takes many steps, deep thought, or changes "
            "beyond a moment, and stay free to talk. The job sees nothing of this conversation: write "
            "task_spec as a complete instruction, and give the facts, excerpts and constraints it needs "
            "in context_bundle. Several jobs can run at once. You are told when one ends; do not wait."
        ),
        parameters={
            "type": "object",
            "properties": {
                "job_name": {
                    "type": "string",
                    "pattern": JOB_NAME_PATTERN,
                    "description": "lower-case letters, digits, hyphens",
                },
                "task_spec": {"type": "string", "minLength": 1, "maxLength": MAX_TASK},
                "context_bundle": {
                    "type": "object",
                    "properties": {"facts": _TEXTS, "excerpts": _TEXTS, "constraints": _TEXTS},
                    "additionalProperties": False,
                },
                "tool_constraints": {
                    "type": "object",
                    "properties": {
                        "allowed_tools": {
                            "type": "array",
                            "items": {"type": "string"},
                            "maxItems": 100,
                            "description": "default: all",
                        },
                        "time_budget_ms": {"type": "integer", "minimum": 0},
                    },
                    "additionalProperties": False,
                },
                "output_schema": {
                    "type": "object",
                    "description": "JSON Schema of the result; default: plain text",
                },
                "verbosity": {"type": "string", "enum": ["quiet", "normal", "detailed"]},
                HARNESS: {"type": "string", "maxLength": 24},
            },
            "required": ["job_name", "task_spec"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT,
        timeout_ms=10_000,
        side_effect="none",
        idempotent=True,
        lanes="edge",
        during_jobs=True,
        locks=(LockTemplate(EDGE_EFFECTS, "X"),),
    ),
)


class JobTools(Protocol):
    """Source of the tools that core jobs may use."""

    def tools_of_jobs(self) -> tuple[str, ...]:
        """Return their canonical names; those of MCP servers come and go."""
        ...


class CoreSpawnTool:
    """Starts core jobs."""

    manifest = MANIFEST

    def __init__(self, session: SessionStateSource, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._tools: JobTools | None = None

    def use_tools(self, tools: JobTools) -> None:
        """Set the source of the tools that a briefing may name."""
        self._tools = tools

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Start the job; raises ToolFailed if that is not allowed."""
        state, job_id = self._session.state, f"job_{context.call_id.removeprefix('call_')}"
        name = str(arguments["job_name"])
        output: JsonObject = {"job_name": name, "job_id": job_id, "status": "started"}
        # An open job, or one that has ended since: its report is due only after this turn.
        earlier_ids = {job.turn_id for job in state.jobs} | {due.subject for due in state.due}
        if job_id in earlier_ids:
            return ToolOutput(output, f"{name} is already started")
        budgets = context.settings.budgets if context.settings else Budgets()
        self._check(state, budgets, name, lane=context.lane)
        started = self._briefing(context, arguments, job_id, name)
        return ToolOutput(output, f"{name} is started", (started,))

    def _check(self, state: SessionState, budgets: Budgets, name: str, *, lane: str) -> None:
        # Checked again although the schema has the pattern: the name becomes part of the
        # lane name.
        if not re.match(JOB_NAME_PATTERN, name):
            raise ToolFailed(
                "bad_name", f"{name!r} is not a valid job name; it must match {JOB_NAME_PATTERN}."
            )
        running = [job.name for job in state.jobs_in(lane)]
        if name in running:
            message = f"A core job {name!r} is already running. Use another name, or send it instructions."
            raise ToolFailed("name_taken", message, {"running": [*running]})
        if state.find_job(name) is not None:
            message = f"Another conversation has a core job {name!r}. Use another name."
            raise ToolFailed("name_taken", message, {"running": [*running]})
        fault = core_job_refusal(state, budgets, lane=lane)
        if fault is not None:
            raise ToolFailed(str(fault["code"]), str(fault["message"]))

    def _time(self, settings: AgentSettings | None) -> str:
        if settings is None or not settings.features.message_times:
            return ""
        now = self._clock.now()
        return format_sent_line(now, now, settings.timezone)

    def _briefing(
        self, context: CallContext, arguments: JsonObject, job_id: str, name: str
    ) -> CoreStarted:
        bundle = ContextBundle.model_validate(arguments.get("context_bundle") or {}, strict=False)
        if len(bundle.model_dump_json()) > MAX_BUNDLE_BYTES:
            message = f"context_bundle is larger than {MAX_BUNDLE_BYTES} bytes: name files instead."
            raise ToolFailed("too_large", message)
        schema = arguments.get("output_schema")
        output_schema = schema if isinstance(schema, dict) and schema else None
        fault = None if output_schema is None else find_schema_fault(output_schema)
        if fault is not None:
            raise ToolFailed("bad_schema", f"output_schema is not a valid JSON Schema: {fault}")
        if output_schema is not None and len(orjson.dumps(output_schema)) > MAX_BUNDLE_BYTES:
            raise ToolFailed("too_large", f"output_schema is larger than {MAX_BUNDLE_BYTES} bytes.")
        return CoreStarted(
            job_id=job_id,
            job_name=name,
            call_id=context.call_id,
            dm=context.dm,
            task_spec=str(arguments["task_spec"]),
            context_bundle=bundle,
            tool_constraints=self._constraints(arguments),
            output_schema=output_schema,
            verbosity=_verbosity(arguments),
            harness=_harness(context, arguments),
            begun=self._time(context.settings),
        )

    def _constraints(self, arguments: JsonObject) -> ToolConstraints:
        constraints = ToolConstraints.model_validate(
            arguments.get("tool_constraints") or {}, strict=False
        )
        names = () if self._tools is None else self._tools.tools_of_jobs()
        usable = {name.replace(".", "_"): name for name in names}
        unknown = [
            name for name in constraints.allowed_tools if name.replace(".", "_") not in usable
        ]
        if unknown:
            message = f"A core job has no tool {', '.join(map(repr, unknown))}."
            raise ToolFailed("unknown_tool", message, {"available_tools": [*sorted(usable)]})
        # Stored with canonical names: policy compares with those.
        canonical_names = tuple(
            sorted({usable[name.replace(".", "_")] for name in constraints.allowed_tools})
        )
        return constraints.model_copy(update={"allowed_tools": canonical_names})


def _harness(context: CallContext, arguments: JsonObject) -> str:
    """Return the harness that is to do the job; raises ToolFailed for an unharnesses one."""
    name = str(arguments.get(HARNESS) or "")
    harnesses = sorted(context.settings.harnesses) if context.settings else []
    if name and name not in harnesses:
        raise ToolFailed(
            "no_such_harness", f"There is no harness {name!r}.", {"harnesses": [*harnesses]}
        )
    return name


def _verbosity(arguments: JsonObject) -> Verbosity:
    match arguments.get("verbosity"):
        case "quiet":
            return "quiet"
        case "detailed":
            return "detailed"
        case _:
            return "normal"
