"""What storing a batch does is worked out from its events alone."""

from datetime import UTC, datetime

import pytest

from choir_common.errors import BadInput
from choir_common.eventlog.chain import Head, head_of, link
from choir_common.wire.events import Event, EventPayload, Reply, SessionAbandoned, UserMsg
from choir_control.eventlog.intake import InboxMark, make_batch, rest_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def chain(*payloads: EventPayload) -> tuple[Event, ...]:
    head, events = Head(), []
    for payload in payloads:
        events.append(link(head, "ses_1", "edge", payload, NOW))
        head = head_of(events[-1])
    return tuple(events)


def taken(inbox_id: str) -> UserMsg:
    return UserMsg(turn_id="t", inbox_id=inbox_id, dm="d", text="x")


def said(text: str, answers: str | None, kind: str = "answer") -> Reply:
    return Reply(turn_id="t", dm="d", text=text, kind=kind, answers=answers)  # type: ignore[arg-type]


def test_taking_up_and_answering_in_one_batch_marks_the_row_once() -> None:
    batch = make_batch(Head(), chain(taken("in_1"), said("a", "in_1"), taken("in_2")), "d")
    assert batch.marks == (InboxMark("in_1", 1, 2), InboxMark("in_2", 3, None))
    assert batch.completes_turn and [words.rev for words in batch.words] == [2]
    assert batch.head.rev == 3


def test_a_notice_is_said_but_answers_nothing() -> None:
    batch = make_batch(Head(), chain(said("wait", "in_1", "notice")), "d")
    assert batch.marks == () and not batch.completes_turn and batch.words[0].kind == "notice"


def test_an_error_completes_its_turn() -> None:
    batch = make_batch(Head(), chain(said("no", "in_1", "error")), "d")
    assert batch.completes_turn and batch.marks == (InboxMark("in_1", None, 1),)


def test_the_rest_of_a_batch_begins_after_the_durable_head() -> None:
    events = chain(taken("in_1"), said("a", "in_1"), said("b", None))
    rest = rest_of(make_batch(Head(), events, "d"), head_of(events[0]), "d")
    assert [event.rev for event in rest.events] == [2, 3]
    assert rest.base.rev == 1 and rest.marks == (InboxMark("in_1", None, 2),)


def test_events_that_are_not_an_agents_are_refused() -> None:
    with pytest.raises(BadInput, match="only control"):
        make_batch(Head(), chain(SessionAbandoned(dm="d", text="x")), "d")
    with pytest.raises(BadInput, match="bound to"):
        make_batch(Head(), chain(said("x", None)), "elsewhere")
    [event] = chain(taken("in_1"))
    with pytest.raises(BadInput, match="lane"):
        make_batch(Head(), (event.model_copy(update={"lane": "control"}),), "d")
