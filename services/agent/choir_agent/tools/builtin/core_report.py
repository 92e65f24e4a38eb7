"""`choir.core.report`: report a core job's progress or request information (CoreReported event).

Only for core jobs. After `need_info` the job pauses until the edge lane injects an answer; the pause follows
from the state that this event creates.
"""

from typing import get_args

from choir_agent.log.session_state import JobState, SessionStateSource
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.wire.events import CoreReported, CoreReportKind
from choir_common.wire.model import JsonObject

KINDS: tuple[CoreReportKind, ...] = get_args(CoreReportKind)

MANIFEST = ToolManifest(
    LlmView(
        name="choir.core.report",
        description=(
            "Report the status of your task. kind `progress`: body {phase, percent, focus}; `plan`: body "
            "{steps}; `thought_summary`: body {summary}, one or two sentences, never raw thoughts; "
            "`partial_result`: body with what is ready; `need_info`: body {missing}, what only the user "
            "can answer: you pause until the answer comes as an instruction. Do not report your result: it "
            "is your last message."
        ),
        parameters={
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": [*KINDS]},
                "body": {"type": "object", "minProperties": 1},
            },
            "required": ["kind", "body"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT,
        timeout_ms=10_000,
        side_effect="none",
        idempotent=True,
        lanes="core",
        in_skills=True,
    ),
)


class CoreReportTool:
    """Records reports of core jobs."""

    manifest = MANIFEST

    def __init__(self, session: SessionStateSource) -> None:
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Record the report; raises ToolFailed if the job has ended in the meantime."""
        work = self._session.state.find_work(context.turn_id)
        if not isinstance(work, JobState):
            raise ToolFailed("no_such_job", "Only a running core job can report.")
        kind = next(kind for kind in KINDS if kind == arguments["kind"])
        output: JsonObject = {"status": "waiting for an answer" if kind == "need_info" else "noted"}
        if context.call_id in work.reported_by:
            return ToolOutput(output, "already reported")
        body = arguments["body"]
        reported = CoreReported(
            job_id=work.turn_id,
            job_name=work.name,
            kind=kind,
            body=body if isinstance(body, dict) else {},
            call_id=context.call_id,
        )
        return ToolOutput(output, f"{kind} reported", (reported,))
