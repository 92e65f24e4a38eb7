"""Fold of one model output or tool call into its turn or core job. Pure. Called by `fold`."""

from dataclasses import replace
from typing import TypeVar, assert_never

from choir_agent.log.state import CallStage, CallState, JobState, TurnState
from choir_common.eventlog.outside import is_outside
from choir_common.wire.events import (
    ModelOutput,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
)

WorkPayload = ModelOutput | ToolCallRequested | ToolCallCommitted | ToolResultCommitted
W = TypeVar("W", TurnState, JobState)


def after_work(work: W, payload: WorkPayload) -> W:
    """Return the turn or job after one more event of its own."""
    match payload:
        case ModelOutput():
            return _after_output(work, payload)
        case ToolCallRequested():
            return _moved(work, payload.call_id, CallStage.REQUESTED)
        case ToolCallCommitted():
            return _moved(work, payload.call_id, CallStage.COMMITTED)
        case ToolResultCommitted():
            outside = work.read_outside or is_outside(payload.tool)
            return _moved(replace(work, read_outside=outside), payload.call_id, CallStage.DONE)
        case _:
            assert_never(payload)


def _after_output(work: W, output: ModelOutput) -> W:
    fresh = replace(
        work,
        steps=work.steps + 1,
        proposed=work.proposed + len(output.tool_calls),
        tokens=work.tokens + output.prompt_tokens + output.completion_tokens,
        output=output,
        calls=tuple(CallState(call) for call in output.tool_calls),
    )
    # A new step means progress: earlier crashes were not caused at this place.
    return replace(fresh, resumes=0) if isinstance(fresh, JobState) else fresh


def _moved(work: W, call_id: str, stage: CallStage) -> W:
    calls = tuple(
        CallState(state.call, stage) if state.call.call_id == call_id else state
        for state in work.calls
    )
    return replace(work, calls=calls)
