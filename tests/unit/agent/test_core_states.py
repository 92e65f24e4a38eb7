"""The core job's transition table."""

import pytest

from choir_agent.lanes.core_states import (
    FINAL_STATES,
    TRANSITIONS,
    CoreState,
    CoreTrigger,
    next_core_state,
)
from choir_common.errors import Conflict

S, T = CoreState, CoreTrigger

# as docs/design/lanes.md lists it
DRAWN = [
    (S.IDLE, S.CREATED),
    (S.CREATED, S.INITIALIZING),
    (S.INITIALIZING, S.REASONING),
    (S.REASONING, S.COMPLETED),
    (S.REASONING, S.WAITING_TOOL),
    (S.REASONING, S.REASONING),
    (S.REASONING, S.TERMINATED),
    (S.WAITING_TOOL, S.REASONING),
]


@pytest.mark.parametrize(("source", "target"), DRAWN)
def test_every_transition_of_the_specification_is_in_the_table(
    source: CoreState, target: CoreState
) -> None:
    assert any(key[0] is source and to is target for key, to in TRANSITIONS.items())


def test_an_ended_job_stays_ended() -> None:
    assert not [key for key in TRANSITIONS if key[0] in FINAL_STATES]


def test_every_state_before_the_end_can_be_terminated() -> None:
    for state in set(CoreState) - FINAL_STATES:
        assert next_core_state(state, T.STOP) is S.TERMINATED


def test_every_state_is_reachable_from_idle() -> None:
    reached, new = {S.IDLE}, {S.IDLE}
    while new:
        new = {to for (source, _), to in TRANSITIONS.items() if source in new} - reached
        reached |= new
    assert reached == set(CoreState)


def test_no_result_comes_out_of_a_waiting_tool() -> None:
    with pytest.raises(Conflict):
        next_core_state(S.WAITING_TOOL, T.RESULT)
