"""States of a core job, as a transition table. Pure.

After a crash a job starts at IDLE again and continues where its log ended: with a tool call, or with its
result.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from choir_common.errors import Conflict


class CoreState(StrEnum):
    """State of a core job."""

    IDLE = "CORE_IDLE"
    CREATED = "CORE_CREATED"
    INITIALIZING = "CORE_INITIALIZING"
    REASONING = "CORE_REASONING"
    WAITING_TOOL = "CORE_WAITING_TOOL"
    COMPLETED = "CORE_COMPLETED"
    TERMINATED = "CORE_TERMINATED"


class CoreTrigger(StrEnum):
    """Event that changes the state of a core job."""

    START = "start"
    LOAD = "load"
    CALL_MODEL = "call_model"
    INJECTED = "injected"
    TOOL_PROPOSAL = "tool_proposal"
    TOOL_RESULT = "tool_result"
    NEED_INFO = "need_info"
    RESULT = "result"
    STOP = "stop"


_S, _T = CoreState, CoreTrigger
FINAL_STATES = frozenset({_S.COMPLETED, _S.TERMINATED})

TRANSITIONS: Mapping[tuple[CoreState, CoreTrigger], CoreState] = MappingProxyType(
    {
        (_S.IDLE, _T.START): _S.CREATED,
        (_S.CREATED, _T.LOAD): _S.INITIALIZING,
        (_S.INITIALIZING, _T.CALL_MODEL): _S.REASONING,
        # An interrupted job resumes here with the move that follows from its log.
        (_S.INITIALIZING, _T.TOOL_PROPOSAL): _S.WAITING_TOOL,
        (_S.INITIALIZING, _T.NEED_INFO): _S.WAITING_TOOL,
        (_S.INITIALIZING, _T.INJECTED): _S.INITIALIZING,
        (_S.INITIALIZING, _T.RESULT): _S.COMPLETED,
        (_S.REASONING, _T.CALL_MODEL): _S.REASONING,
        (_S.REASONING, _T.INJECTED): _S.REASONING,
        (_S.REASONING, _T.TOOL_PROPOSAL): _S.WAITING_TOOL,
        (_S.REASONING, _T.NEED_INFO): _S.WAITING_TOOL,
        (_S.REASONING, _T.RESULT): _S.COMPLETED,
        (_S.WAITING_TOOL, _T.TOOL_RESULT): _S.REASONING,
        **{(state, _T.STOP): _S.TERMINATED for state in _S if state not in FINAL_STATES},
    }
)


def next_core_state(state: CoreState, trigger: CoreTrigger) -> CoreState:
    """Return the next state.

    Raises Conflict for a transition that is not in the table: a bug in the lane.
    """
    following = TRANSITIONS.get((state, trigger))
    if following is None:
        raise Conflict(f"A core job cannot {trigger} in {state}.")
    return following
