"""`choir.core.list`: list the running core jobs and their progress.

Called by the arbiter for the edge lane; only reads the session's state.

Look up the core job that a call names. Used by the tools for core jobs.
"""

from collections.abc import Callable

from choir_agent.log.session_state import JobState, SessionState
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.wire.config import Budgets
from choir_common.wire.model import JsonObject

TASK_CHARS = 200

MANIFEST = ToolManifest(
    LlmView(
        name="choir.core.list",
        description="List the running core jobs: task, steps so far, newest progress, what they need.",
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
    ),
    RuntimeView(
        timeout_ms=10_000, side_effect="none", idempotent=True, lanes="edge", during_jobs=True
    ),
)


class CoreListTool:
    """Lists core jobs."""

    manifest = MANIFEST

    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._state = state

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Return the open jobs, oldest first."""
        budgets = context.settings.budgets if context.settings else Budgets()
        jobs = self._state().jobs
        output: JsonObject = {"jobs": [_told(job, budgets) for job in jobs]}
        return ToolOutput(output, f"{len(jobs)} core jobs run")


def _told(job: JobState, budgets: Budgets) -> JsonObject:
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


JOB_NAME: JsonObject = {"type": "string", "minLength": 1, "maxLength": 60}


def find_open_job(state: SessionState, name: str) -> JobState:
    """Return the open job with that name; raises ToolFailed listing the running ones."""
    job = state.find_job(name)
    if job is not None:
        return job
    running = [job.name for job in state.jobs]
    listed = ", ".join(running) or "none"
    raise ToolFailed(
        "no_such_job", f"No core job {name!r} runs. Running: {listed}.", {"running": [*running]}
    )
