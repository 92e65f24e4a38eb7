"""`choir.core.cancel`: cancel a running core job immediately.

Called by the arbiter for the edge lane. Changes that the job has already made remain.
"""

from collections.abc import Callable

from choir_agent.log.session_state import SessionState
from choir_agent.tools.builtin.core_list import JOB_NAME, find_open_job
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.wire.events import Cancelled
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
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
        timeout_ms=10_000, side_effect="none", idempotent=True, lanes="edge", during_jobs=True
    ),
)


class CoreCancelTool:
    """Cancels core jobs."""

    manifest = MANIFEST

    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._state = state

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Cancel the job; raises ToolFailed if no such job runs."""
        job = find_open_job(self._state(), str(arguments["job_name"]))
        output: JsonObject = {"job_name": job.name, "status": "cancelled"}
        cancelled = Cancelled(target=job.lane, turn_id=job.turn_id, by="edge")
        return ToolOutput(output, f"{job.name} is cancelled", () if job.cancelled else (cancelled,))
