"""What storing a batch does is worked out from its events alone."""

from datetime import UTC, datetime

import pytest

from choir_common.errors import InvalidRequest
from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.wire.events import (
    ApprovalDecided,
    Cancelled,
    CompactionRequested,
    CoreStopped,
    Event,
    EventPayload,
    InjectedInstruction,
    Reply,
    SessionAbandoned,
    UserMessageStarted,
)
from choir_control.log.eventlog.batch import CompletedSignals, InboxUpdate, make_batch, trim_batch

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def chain(*payloads: EventPayload) -> tuple[Event, ...]:
    head, events = LogHead(), []
    for payload in payloads:
        events.append(link_event(head, "ses_1", "edge", payload, NOW))
        head = head_of(events[-1])
    return tuple(events)


def taken(inbox_id: str) -> UserMessageStarted:
    return UserMessageStarted(turn_id="t", inbox_id=inbox_id, dm="d", text="x")


def said(text: str, answers: str | None, kind: str = "answer") -> Reply:
    return Reply(turn_id="t", dm="d", text=text, kind=kind, answers=answers)  # type: ignore[arg-type]


def test_taking_up_and_answering_in_one_batch_marks_the_row_once() -> None:
    batch = make_batch(LogHead(), chain(taken("in_1"), said("a", "in_1"), taken("in_2")), ("d",))
    assert batch.inbox_updates == (InboxUpdate("in_1", 1, 2), InboxUpdate("in_2", 3, None))
    assert batch.completes_turn and [words.rev for words in batch.replies] == [2]
    assert batch.head.rev == 3


def test_a_notice_is_said_but_answers_nothing() -> None:
    batch = make_batch(LogHead(), chain(said("wait", "in_1", "notice")), ("d",))
    assert (
        batch.inbox_updates == () and not batch.completes_turn and batch.replies[0].kind == "notice"
    )


def test_an_error_completes_its_turn() -> None:
    batch = make_batch(LogHead(), chain(said("no", "in_1", "error")), ("d",))
    assert batch.completes_turn and batch.inbox_updates == (InboxUpdate("in_1", None, 1),)


def test_a_report_and_the_end_of_a_job_count_as_progress_and_answer_nothing() -> None:
    report = make_batch(LogHead(), chain(said("it is done", None, "report")), ("d",))
    assert (
        report.completes_turn and report.inbox_updates == () and report.replies[0].kind == "report"
    )
    ended = CoreStopped(job_id="j", job_name="read", outcome="crashed")
    assert make_batch(LogHead(), chain(ended), ("d",)).completes_turn


def test_a_signal_is_done_by_the_event_that_names_it() -> None:
    events = chain(
        InjectedInstruction(target="edge", turn_id=None, text="x", by="user", signal=7),
        InjectedInstruction(target="core:a", turn_id="j", text="x", by="edge"),
        Cancelled(target="core:a", turn_id="j", by="user", signal=8),
        CompactionRequested(target="edge", signal=9),
        ApprovalDecided(approval_id="appr_1", status="approved", what="w", dm="d"),
    )
    batch = make_batch(LogHead(), events, ("d",))
    assert batch.completed_signals == CompletedSignals((7, 8, 9), ("appr_1",))
    assert trim_batch(batch, head_of(events[2]), ("d",)).completed_signals == CompletedSignals(
        (9,), ("appr_1",)
    )


def test_the_rest_of_a_batch_begins_after_the_durable_head() -> None:
    events = chain(taken("in_1"), said("a", "in_1"), said("b", None))
    rest = trim_batch(make_batch(LogHead(), events, ("d",)), head_of(events[0]), ("d",))
    assert [event.rev for event in rest.events] == [2, 3]
    assert rest.base.rev == 1 and rest.inbox_updates == (InboxUpdate("in_1", None, 2),)


def test_events_that_are_not_an_agents_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="only control"):
        make_batch(LogHead(), chain(SessionAbandoned(dm="d", text="x")), ("d",))
    with pytest.raises(InvalidRequest, match="bound to"):
        make_batch(LogHead(), chain(said("x", None)), ("elsewhere",))
    [event] = chain(taken("in_1"))
    with pytest.raises(InvalidRequest, match="lane"):
        make_batch(LogHead(), (event.model_copy(update={"lane": "control"}),), ("d",))
