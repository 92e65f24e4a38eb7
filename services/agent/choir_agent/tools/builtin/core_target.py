"""Look up the core job that a call names. Used by the tools for core jobs."""

from choir_agent.log.state import JobState, SessionState
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.json import JsonObject

JOB_NAME: JsonObject = {"type": "string", "minLength": 1, "maxLength": 60}


def open_job(state: SessionState, name: str) -> JobState:
    """Return the open job with that name; raises ToolFailed listing the running ones."""
    job = state.job(name)
    if job is not None:
        return job
    running = [job.name for job in state.jobs]
    listed = ", ".join(running) or "none"
    raise ToolFailed(
        "no_such_job", f"No core job {name!r} runs. Running: {listed}.", {"running": [*running]}
    )
