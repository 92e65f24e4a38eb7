"""The edge lane's transition table."""

import pytest

from choir_agent.lanes.edge_states import TRANSITIONS, EdgeState, EdgeTrigger, next_edge_state
from choir_common.errors import Conflict

S, T = EdgeState, EdgeTrigger

# as docs/design/lanes.md lists it
DRAWN = [
    (S.IDLE, T.USER_MESSAGE, S.CONTEXT_READY),
    (S.CONTEXT_READY, T.CALL_MODEL, S.REASONING),
    (S.REASONING, T.FINISH, S.FINALIZING),
    (S.REASONING, T.TOOL_PROPOSAL, S.WAITING_TOOL),
    (S.REASONING, T.SPAWN, S.REASONING),
    (S.WAITING_TOOL, T.TOOL_RESULT, S.REASONING),
    (S.FINALIZING, T.DELIVERED, S.IDLE),
    (S.REASONING, T.MODEL_ERROR, S.FINALIZING),
]


@pytest.mark.parametrize(("source", "trigger", "target"), DRAWN)
def test_every_transition_of_the_specification_is_in_the_table(
    source: EdgeState, trigger: EdgeTrigger, target: EdgeState
) -> None:
    assert next_edge_state(source, trigger) is target


def test_a_report_begins_only_without_an_open_turn() -> None:
    sources = [source for source, trigger in TRANSITIONS if trigger is T.REPORT]
    # the second: while a voice message is transcribed
    assert sources == [S.IDLE, S.CONTEXT_READY]


def test_every_state_can_be_left_and_terminated_is_the_end() -> None:
    for state in EdgeState:
        ways_on = {target for (source, _), target in TRANSITIONS.items() if source is state}
        assert ways_on - {state, EdgeState.TERMINATED} or state is EdgeState.TERMINATED
    assert next_edge_state(EdgeState.REASONING, EdgeTrigger.TERMINATE) is EdgeState.TERMINATED


def test_every_state_is_reachable_from_idle() -> None:
    reached, new = {EdgeState.IDLE}, {EdgeState.IDLE}
    while new:
        new = {to for (source, _), to in TRANSITIONS.items() if source in new} - reached
        reached |= new
    assert reached == set(EdgeState)


def test_a_step_that_is_not_in_the_table_is_an_error() -> None:
    with pytest.raises(Conflict):
        next_edge_state(EdgeState.IDLE, EdgeTrigger.FINISH)
