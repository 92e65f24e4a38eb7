"""`choir.schedule.*`: reminders and instructions for later, in the conversation that the agent serves.

Run without locks, after the commitment is durable. The host applies each call once per call_id, and refuses
what needs a person's consent; see docs/design/schedules.md.
"""

from choir_agent.control_client.control_client import ControlClient
from choir_agent.log.session_state import SessionStateSource, TurnState
from choir_agent.tools.host_tools import run_host_tool
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.eventlog.tool_results import OWN_OUTPUT, TOOL_OUTPUT
from choir_common.wire.model import JsonObject

TIMEOUT_MS = 20_000
ASK_USER = "ask_user"
_ASK: JsonObject = {"type": "boolean"}
# Without lengths and values, which the host checks: every prompt contains these schemas.
_TEXT: JsonObject = {"type": "string"}
_ID: JsonObject = {"type": "integer"}

CREATE_MANIFEST = ToolManifest(
    LlmView(
        name="choir.schedule.create",
        description=(
            "Do something later: `remind` sends the text word for word, `prompt` gives it to you, "
            "`job` to a job, `skill` to one in that skill. "
            "timing, value: in 5m; at 08:00 or 2026-12-24 18:00; every 1d; cron 0 8 * * MON-FRI."
        ),
        parameters={
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["remind", "prompt", "job", "skill"]},
                "text": _TEXT,
                "skill": {"type": "string"},
                "timing": _TEXT,
                "value": _TEXT,
                "zone": _TEXT,
                ASK_USER: _ASK,
            },
            "required": ["kind", "text", "timing", "value"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT,
        timeout_ms=TIMEOUT_MS,
        side_effect="write",
        idempotent=True,
        host=True,
        lanes="edge",
        during_jobs=True,
        asks_with=ASK_USER,
    ),
)
LIST_MANIFEST = ToolManifest(
    LlmView(
        name="choir.schedule.list",
        description="List what is to be done later.",
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
    ),
    RuntimeView(
        source=TOOL_OUTPUT,
        timeout_ms=TIMEOUT_MS,
        side_effect="none",
        idempotent=True,
        host=True,
        lanes="edge",
    ),
)
UPDATE_MANIFEST = ToolManifest(
    LlmView(
        name="choir.schedule.update",
        description="Change one.",
        parameters={
            "type": "object",
            "properties": {
                "schedule_id": _ID,
                "state": {"type": "string", "enum": ["active", "paused"]},
                "text": _TEXT,
                "timing": _TEXT,
                "value": _TEXT,
                "zone": _TEXT,
                ASK_USER: _ASK,
            },
            "required": ["schedule_id"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT,
        timeout_ms=TIMEOUT_MS,
        side_effect="write",
        idempotent=True,
        host=True,
        lanes="edge",
        during_jobs=True,
        asks_with=ASK_USER,
    ),
)
DELETE_MANIFEST = ToolManifest(
    LlmView(
        name="choir.schedule.delete",
        description="Delete one.",
        parameters={
            "type": "object",
            "properties": {"schedule_id": _ID, ASK_USER: _ASK},
            "required": ["schedule_id"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT,
        timeout_ms=TIMEOUT_MS,
        side_effect="write",
        # repeated after a crash, it would report that there is no such schedule
        idempotent=False,
        host=True,
        lanes="edge",
        during_jobs=True,
        asks_with=ASK_USER,
    ),
)
MANIFESTS = (CREATE_MANIFEST, LIST_MANIFEST, UPDATE_MANIFEST, DELETE_MANIFEST)


class ScheduleTool:
    """One of the tools, run through the host."""

    def __init__(
        self, manifest: ToolManifest, control: ControlClient, session: SessionStateSource
    ) -> None:
        self.manifest = manifest
        self._control = control
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Run the call; raises ToolFailed with the host's error."""
        input_ = arguments
        if self.manifest in (CREATE_MANIFEST, UPDATE_MANIFEST):
            # Not an argument of the model: the message tells the host whether a person is behind it.
            turn = self._session.state.find_work(context.turn_id)
            inbox_id = turn.inbox_id if isinstance(turn, TurnState) else None
            input_ = {**arguments, "inbox_id": inbox_id}
        output = await run_host_tool(self._control, context, self.manifest, input_)
        listed = output.get("schedules")
        if isinstance(listed, list):
            return ToolOutput(output, f"{len(listed)} schedules")
        return ToolOutput(output, f"schedule {output.get('schedule_id')}: {output.get('state')}")
