"""The edge lane's states as a transition table (spec 7.2): pure.

Kept by `edge`. One turn's cancel or exhausted budget ends that turn and not the lane: the user is told
(FINALIZING) and the lane is idle again. Only a shutdown or a fatal error terminates it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from choir_common.errors import Conflict


class EdgeState(StrEnum):
    """What the edge lane is doing."""

    IDLE = "EDGE_IDLE"
    CONTEXT_READY = "EDGE_CONTEXT_READY"
    REASONING = "EDGE_REASONING"
    WAITING_TOOL = "EDGE_WAITING_TOOL"
    FINALIZING = "EDGE_FINALIZING"
    TERMINATED = "EDGE_TERMINATED"


class EdgeTrigger(StrEnum):
    """What moves it."""

    USER_MESSAGE = "user_message"
    REPORT = "report"
    CALL_MODEL = "call_model"
    TOOL_PROPOSAL = "tool_proposal"
    TOOL_RESULT = "tool_result"
    SPAWN = "spawn"
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
        (_S.IDLE, _T.USER_MESSAGE): _S.CONTEXT_READY,
        # what a core job came to, or a human decided, is told in a turn of its own
        (_S.IDLE, _T.REPORT): _S.CONTEXT_READY,
        (_S.CONTEXT_READY, _T.CALL_MODEL): _S.REASONING,
        # a recovered turn may go on with a tool's result or with the answer the model had given
        (_S.CONTEXT_READY, _T.TOOL_PROPOSAL): _S.WAITING_TOOL,
        (_S.CONTEXT_READY, _T.SPAWN): _S.REASONING,
        (_S.CONTEXT_READY, _T.FINISH): _S.FINALIZING,
        (_S.REASONING, _T.TOOL_PROPOSAL): _S.WAITING_TOOL,
        # a core job starts in the background: nothing is waited for
        (_S.REASONING, _T.SPAWN): _S.REASONING,
        (_S.REASONING, _T.FINISH): _S.FINALIZING,
        (_S.REASONING, _T.MODEL_ERROR): _S.FINALIZING,
        (_S.WAITING_TOOL, _T.TOOL_RESULT): _S.REASONING,
        (_S.REASONING, _T.CALL_MODEL): _S.REASONING,
        **{(state, _T.CANCEL): _S.FINALIZING for state in _TURN},
        **{(state, _T.BUDGET_EXCEEDED): _S.FINALIZING for state in _TURN},
        # it waits for a human, and something else is to be done
        (_S.WAITING_TOOL, _T.PARK): _S.IDLE,
        (_S.FINALIZING, _T.DELIVERED): _S.IDLE,
        **{(state, _T.TERMINATE): _S.TERMINATED for state in EdgeState},
    }
)


def after(state: EdgeState, trigger: EdgeTrigger) -> EdgeState:
    """Return the next state.

    Raises Conflict for a step that is not in the table: a bug in the lane.
    """
    following = TRANSITIONS.get((state, trigger))
    if following is None:
        raise Conflict(f"The edge lane cannot {trigger} in {state}.")
    return following
