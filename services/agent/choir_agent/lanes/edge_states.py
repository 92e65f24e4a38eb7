"""States of the edge lane as a transition table, and the tracker of the current state.

A cancelled turn or an exhausted budget ends the turn but not the lane: the user gets a
reply (FINALIZING) and the lane is idle again. Only shutdown and fatal errors terminate the lane.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import structlog

from choir_agent.lanes.lane_status import LaneStateRecorder
from choir_common.errors import Conflict

log = structlog.get_logger("choir.agent.edge")


class EdgeState(StrEnum):
    """State of the edge lane."""

    IDLE = "EDGE_IDLE"
    CONTEXT_READY = "EDGE_CONTEXT_READY"
    REASONING = "EDGE_REASONING"
    WAITING_TOOL = "EDGE_WAITING_TOOL"
    FINALIZING = "EDGE_FINALIZING"
    TERMINATED = "EDGE_TERMINATED"


class EdgeTrigger(StrEnum):
    """Event that changes the state of the edge lane."""

    VOICE_MESSAGE = "voice_message"
    USER_MESSAGE = "user_message"
    REPORT = "report"
    CALL_MODEL = "call_model"
    TOOL_PROPOSAL = "tool_proposal"
    TOOL_RESULT = "tool_result"
    SPAWN = "spawn"
    START_JOB = "start_job"
    FINISH = "finish"
    MODEL_ERROR = "model_error"
    CANCEL = "cancel"
    BUDGET_EXCEEDED = "budget_exceeded"
    DELIVERED = "delivered"
    PARK = "park"
    TERMINATE = "terminate"


_S, _T = EdgeState, EdgeTrigger
_TURN = (_S.CONTEXT_READY, _S.REASONING, _S.WAITING_TOOL)

TRANSITIONS: Mapping[tuple[EdgeState, EdgeTrigger], EdgeState] = MappingProxyType(
    {
        # A voice message is transcribed before its turn begins.
        (_S.IDLE, _T.VOICE_MESSAGE): _S.CONTEXT_READY,
        (_S.CONTEXT_READY, _T.USER_MESSAGE): _S.CONTEXT_READY,
        (_S.IDLE, _T.USER_MESSAGE): _S.CONTEXT_READY,
        # Outcomes of core jobs and human decisions are reported in turns of their own, also while a voice
        # message is transcribed.
        (_S.IDLE, _T.REPORT): _S.CONTEXT_READY,
        (_S.CONTEXT_READY, _T.REPORT): _S.CONTEXT_READY,
        (_S.CONTEXT_READY, _T.CALL_MODEL): _S.REASONING,
        # A recovered turn may resume with a tool call, or with an answer that the model already gave.
        (_S.CONTEXT_READY, _T.TOOL_PROPOSAL): _S.WAITING_TOOL,
        (_S.CONTEXT_READY, _T.SPAWN): _S.REASONING,
        (_S.CONTEXT_READY, _T.FINISH): _S.FINALIZING,
        (_S.REASONING, _T.TOOL_PROPOSAL): _S.WAITING_TOOL,
        # A core job starts in the background; the turn does not wait for it.
        (_S.REASONING, _T.SPAWN): _S.REASONING,
        # The core job of a schedule starts without the model, and closes the turn.
        (_S.CONTEXT_READY, _T.START_JOB): _S.FINALIZING,
        (_S.REASONING, _T.FINISH): _S.FINALIZING,
        (_S.REASONING, _T.MODEL_ERROR): _S.FINALIZING,
        (_S.WAITING_TOOL, _T.TOOL_RESULT): _S.REASONING,
        (_S.REASONING, _T.CALL_MODEL): _S.REASONING,
        **{(state, _T.CANCEL): _S.FINALIZING for state in _TURN},
        **{(state, _T.BUDGET_EXCEEDED): _S.FINALIZING for state in _TURN},
        # The turn waits for a human and there is other work.
        (_S.WAITING_TOOL, _T.PARK): _S.IDLE,
        (_S.FINALIZING, _T.DELIVERED): _S.IDLE,
        **{(state, _T.TERMINATE): _S.TERMINATED for state in EdgeState},
    }
)


def next_edge_state(state: EdgeState, trigger: EdgeTrigger) -> EdgeState:
    """Return the next state.

    Raises Conflict for a transition that is not in the table: a bug in the lane.
    """
    following = TRANSITIONS.get((state, trigger))
    if following is None:
        raise Conflict(f"The edge lane cannot {trigger} in {state}.")
    return following


class EdgeStateTracker:
    """The current state of an edge lane; reports each change."""

    def __init__(self, lane: str, recorder: LaneStateRecorder) -> None:
        self._lane = lane
        self._recorder = recorder
        self.state = EdgeState.IDLE

    def move(self, trigger: EdgeTrigger) -> None:
        """Change the state; raises Conflict for a transition that is not in the table."""
        before, self.state = self.state, next_edge_state(self.state, trigger)
        log.info(
            "lane state changed", lane=self._lane, state=self.state, before=before, trigger=trigger
        )
        self._recorder.record_state(self._lane, self.state)
