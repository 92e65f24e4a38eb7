"""`choir.core.list`, `choir.core.inject` and `choir.core.cancel`: look after the running core jobs.

For the edge lane. A job reads new instructions at its next safe point; its earlier messages do not change,
and its budgets are not reset. Changes that a cancelled job has already made remain.
"""

from choir_agent.log.session_state import JobState, SessionState, SessionStateSource
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.eventlog.tool_results import JOB_OUTPUT, OWN_OUTPUT
from choir_common.wire.config import Budgets
from choir_common.wire.events import Cancelled, InjectedInstruction
from choir_common.wire.model import JsonObject

TASK_CHARS = 200
JOB_NAME: JsonObject = {"type": "string", "minLength": 1, "maxLength": 60}

LIST_MANIFEST = ToolManifest(
    LlmView(
        name="choir.core.list",
        description="List the running core jobs: task, steps so far, newest progress, what they need.",
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
    ),
    RuntimeView(
        source=JOB_OUTPUT,
        timeout_ms=10_000,
        side_effect="none",
        idempotent=True,
        lanes="edge",
        during_jobs=True,
    ),
)


class CoreListTool:
    """Lists core jobs."""

    manifest = LIST_MANIFEST

    def __init__(self, session: SessionStateSource) -> None:
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Return the open jobs, oldest first."""
        budgets = context.settings.budgets if context.settings else Budgets()
        jobs = self._session.state.jobs_in(context.lane)
        output: JsonObject = {"jobs": [_describe(job, budgets) for job in jobs]}
        return ToolOutput(output, f"{len(jobs)} core jobs are running")


def _describe(job: JobState, budgets: Budgets) -> JsonObject:
    busy = [state.call.tool for state in job.calls if state.stage != "done"]
    return {
        "job_name": job.name,
        "task": job.briefing.task_spec[:TASK_CHARS],
        "started_at": job.started_at,
        "steps": job.steps,
        "max_steps": budgets.per_job_max_steps,
        "using": [*busy],
        "latest": job.latest,
        "needs": job.needs,
        "instructions_given": job.injections,
        "cancelled": job.cancelled,
    }


INJECT_MANIFEST = ToolManifest(
    LlmView(
        name="choir.core.inject",
        description=(
            "Give a running core job further instructions, or the answer to what it needs. It reads "
            "them at its next step. Say in your own words what is to be done: it sees nothing of this "
            "conversation."
        ),
        parameters={
            "type": "object",
            "properties": {
                "job_name": JOB_NAME,
                "content": {"type": "string", "minLength": 1, "maxLength": 20_000},
            },
            "required": ["job_name", "content"],
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
    ),
)


class CoreInjectTool:
    """Sends instructions to running core jobs."""

    manifest = INJECT_MANIFEST

    def __init__(self, session: SessionStateSource) -> None:
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Inject the text; raises ToolFailed if no such job runs or its limit of injections is reached."""
        job = find_open_job(self._session.state, context.lane, str(arguments["job_name"]))
        output: JsonObject = {"job_name": job.name, "status": "sent"}
        if context.call_id in job.injected_by:
            return ToolOutput(output, f"{job.name} already has this instruction")
        limit = (context.settings.budgets if context.settings else Budgets()).max_injections_per_job
        if job.injections >= limit:
            message = (
                f"The core job {job.name!r} has reached its limit of {limit} instructions "
                "(max_injections_per_job). Wait for its result, or cancel it and start another."
            )
            raise ToolFailed("too_many_injections", message)
        injected = InjectedInstruction(
            target=job.lane,
            turn_id=job.turn_id,
            text=str(arguments["content"]),
            by="edge",
            call_id=context.call_id,
        )
        return ToolOutput(output, f"instruction sent to {job.name}", (injected,))


CANCEL_MANIFEST = ToolManifest(
    LlmView(
        name="choir.core.cancel",
        description="End a running core job at once. What it has changed by then stays changed.",
        parameters={
            "type": "object",
            "properties": {"job_name": JOB_NAME},
            "required": ["job_name"],
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
    ),
)


class CoreCancelTool:
    """Cancels core jobs."""

    manifest = CANCEL_MANIFEST

    def __init__(self, session: SessionStateSource) -> None:
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Cancel the job; raises ToolFailed if no such job runs."""
        job = find_open_job(self._session.state, context.lane, str(arguments["job_name"]))
        output: JsonObject = {"job_name": job.name, "status": "cancelled"}
        cancelled = Cancelled(target=job.lane, turn_id=job.turn_id, by="edge")
        return ToolOutput(output, f"{job.name} is cancelled", () if job.cancelled else (cancelled,))


def find_open_job(state: SessionState, lane: str, name: str) -> JobState:
    """Return the open job of an edge lane with that name; raises ToolFailed listing the running ones."""
    jobs = state.jobs_in(lane)
    job = next((job for job in jobs if job.name == name), None)
    if job is not None:
        return job
    running = [job.name for job in jobs]
    names = ", ".join(running) or "none"
    raise ToolFailed(
        "no_such_job",
        f"No core job {name!r} is running. Running: {names}.",
        {"running": [*running]},
    )
