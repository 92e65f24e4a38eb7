"""`choir.core.inject`: send further instructions to a running core job.

Called by the arbiter for the edge lane. The job reads them at its next safe point. Its earlier
messages do not change, and its budgets are not reset.
"""

from collections.abc import Callable

from choir_agent.log.session_state import SessionState
from choir_agent.tools.builtin.core_list import JOB_NAME, find_open_job
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.wire.config import Budgets
from choir_common.wire.events import InjectedInstruction
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
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
        timeout_ms=10_000, side_effect="none", idempotent=True, lanes="edge", during_jobs=True
    ),
)


class CoreInjectTool:
    """Sends instructions to running core jobs."""

    manifest = MANIFEST

    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._state = state

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Inject the text; raises ToolFailed if no such job runs or its limit of injections is reached."""
        job = find_open_job(self._state(), str(arguments["job_name"]))
        output: JsonObject = {"job_name": job.name, "status": "told"}
        if context.call_id in job.injected_by:
            return ToolOutput(output, f"{job.name} was told before")
        limit = (context.settings.budgets if context.settings else Budgets()).max_injections_per_job
        if job.injections >= limit:
            message = (
                f"The core job {job.name!r} was given {limit} instructions (max_injections_per_job). "
                "Wait for its result, or cancel it and start another."
            )
            raise ToolFailed("too_many_injections", message)
        injected = InjectedInstruction(
            target=job.lane,
            turn_id=job.turn_id,
            text=str(arguments["content"]),
            by="edge",
            call_id=context.call_id,
        )
        return ToolOutput(output, f"{job.name} is told", (injected,))
