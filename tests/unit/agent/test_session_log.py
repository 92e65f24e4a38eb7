"""The log in memory: whatever is said can be stored, and what is handed over must fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.errors import InvalidRequest
from choir_common.eventlog.chain import LogHead, find_break
from choir_common.wire.events import ToolResultCommitted, UserMessageStarted
from tests.support.agent_fakes import silent_log

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def user_msg(number: int) -> UserMessageStarted:
    return UserMessageStarted(turn_id="t", inbox_id=f"i{number}", dm="d", text="hello")


@given(output=st.dictionaries(st.text(), json_values, max_size=4))
def test_any_json_a_tool_gives_back_becomes_an_event_that_verifies(output: dict) -> None:  # type: ignore[type-arg]
    log = silent_log()
    result = ToolResultCommitted(
        turn_id="t", call_id="c", tool="x", status="success", output=output
    )
    log.append("edge", result)
    assert find_break([log.entries[0].event()]) is None
    assert b"\\u0000" not in log.entries[0].wire


def test_a_tail_that_does_not_fit_the_head_is_refused() -> None:
    log = silent_log()
    for number in range(3):
        log.append("edge", user_msg(number))
    events = [entry.event() for entry in log.entries]
    again = silent_log()
    with pytest.raises(InvalidRequest):
        again.restore(events, LogHead(2, events[1].hash))
    with pytest.raises(InvalidRequest):
        again.restore([events[0], events[2]], log.head)
    again.restore(events[1:], log.head)
    assert again.head == log.head
    assert "i1" in again.taken_inbox_ids and "i2" in again.taken_inbox_ids


def test_batches_are_bounded_by_bytes_and_hold_at_least_one_event() -> None:
    log = silent_log()
    for number in range(10):
        log.append("edge", user_msg(number))
    assert [entry.rev for entry in log.events_after(7, 100, 10_000)] == [8, 9, 10]
    assert [entry.rev for entry in log.events_after(7, 2, 10_000)] == [8, 9]
    assert [entry.rev for entry in log.events_after(7, 100, 1)] == [8]
    assert log.events_after(10, 100, 1) == ()
