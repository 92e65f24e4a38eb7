"""The hash chain: what is linked verifies, and every change to it is found."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.errors import InvalidRequest
from choir_common.eventlog.chain import (
    LogHead,
    canonical_json,
    event_hash,
    find_break,
    head_of,
    link_event,
)
from choir_common.wire.events import (
    GENESIS,
    Event,
    Reply,
    SessionStarted,
    ToolResultCommitted,
    parse_payload,
)

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**53), max_value=2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=("Cs",))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
outputs = st.dictionaries(
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=8), json_values, max_size=4
)


def chain_of(outputs_in_order: list[dict[str, object]]) -> list[Event]:
    head, events = LogHead(), []
    for number, output in enumerate(outputs_in_order):
        payload = ToolResultCommitted(
            turn_id="t", call_id=str(number), tool="x", status="success", output=output
        )
        event = link_event(head, "s1", "edge", payload, AT)
        head = head_of(event)
        events.append(event)
    return events


@given(st.lists(outputs, min_size=1, max_size=6))
def test_a_chain_survives_json_and_verifies(contents: list[dict[str, object]]) -> None:
    events = [Event.model_validate_json(e.model_dump_json()) for e in chain_of(contents)]
    assert find_break(events) is None


@given(st.lists(outputs, min_size=2, max_size=5), st.data())
def test_any_changed_field_is_found_at_its_event(
    contents: list[dict[str, object]], data: st.DataObject
) -> None:
    events = chain_of(contents)
    place = data.draw(st.integers(0, len(events) - 1))
    field = data.draw(st.sampled_from(["lane", "type", "at", "payload", "session_id"]))
    changed = {"hidden": 1} if field == "payload" else getattr(events[place], field) + "x"
    events[place] = events[place].model_copy(update={field: changed})
    found = find_break(events)
    assert found is not None
    assert found.rev == place + 1


def test_a_missing_event_is_found() -> None:
    events = chain_of([{}, {}, {}])
    found = find_break([events[0], events[2]])
    assert found is not None
    assert found.rev == 3


def test_the_first_event_follows_the_genesis_hash() -> None:
    event = link_event(LogHead(), "s1", "session", SessionStarted(agent_id="main", epoch=1), AT)
    assert (event.rev, event.hash_prev) == (1, GENESIS)
    assert event.hash == event_hash(event)


def test_the_hash_of_a_known_event_never_changes() -> None:
    # as it was stored: what replies have learnt to say since is not in it
    stored = {"turn_id": "t", "dm": "d", "text": "hé", "kind": "answer", "answers": None}
    reply = Reply(turn_id="t", dm="d", text="hé", kind="answer")
    event = link_event(LogHead(), "s1", "edge", reply, AT).model_copy(update={"payload": stored})
    assert event_hash(event) == "3a3872ebd1187f15403ffdf8b7413ba3857687c40e700748b1e78c8a413b664c"


def test_a_payload_comes_back_as_its_type() -> None:
    reply = Reply(turn_id="t", dm="d", text="hi", kind="answer", answers="in_1")
    assert parse_payload(link_event(LogHead(), "s1", "edge", reply, AT)) == reply


@pytest.mark.parametrize("value", [2**70, math.nan])
def test_numbers_that_json_cannot_carry_are_refused_or_null(value: float) -> None:
    if isinstance(value, int):
        with pytest.raises(InvalidRequest, match="JSON"):
            canonical_json({"x": value})
    else:
        assert canonical_json({"x": value}) == b'{"x":null}'
