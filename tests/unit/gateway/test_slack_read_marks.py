"""Marks of how far a user's messages were read: repeated, late and edited messages."""

from choir_gateway.channels.slack.payloads import EditStamp, MessageObject, ts_order
from choir_gateway.channels.slack.read_marks import MAX_RECENT, SlackReadMark


def message(ts: str, *, edited: str | None = None, thread: str | None = None) -> MessageObject:
    stamp = EditStamp(ts=edited) if edited else None
    return MessageObject(ts=ts, user="U1", text="x", edited=stamp, thread_ts=thread)


def test_a_time_is_ordered_by_its_numbers() -> None:
    assert ts_order("") < ts_order("999.000002") < ts_order("1000.000001") < ts_order("1000.000010")


def test_a_message_is_read_once_and_again_after_an_edit() -> None:
    mark = SlackReadMark(floor="10.000000").add(message("11.000000"), "in_1")
    assert mark.is_read(message("11.000000"))
    assert not mark.is_read(message("11.000000", edited="12.000000"))
    edited = mark.add(message("11.000000", edited="12.000000"), "")
    assert edited.is_read(message("11.000000", edited="12.000000"))
    assert edited.thread_of(ts=None, inbox_id="in_1") is None
    assert edited.recent["11.000000"].inbox_id == "in_1"


def test_a_message_that_comes_late_is_new() -> None:
    mark = SlackReadMark(floor="10.000000").add(message("13.000000"), "in_1")
    assert not mark.is_read(message("12.000000")) and not mark.knows("12.000000")
    assert mark.newest == "13.000000"


def test_old_messages_are_read_and_their_edits_count_once() -> None:
    mark = SlackReadMark(floor="10.000000")
    for number in range(MAX_RECENT + 5):
        mark = mark.add(message(f"{11 + number}.000000"), "")
    assert (mark.floor, len(mark.recent)) == ("15.000000", MAX_RECENT)
    assert mark.is_read(message("12.000000")) and mark.is_read(message("5.000000"))
    late = message("12.000000", edited="90.000000")
    assert mark.knows("12.000000") and not mark.is_read(late)
    assert mark.add(late, "").is_read(late)


def test_the_thread_of_an_answer_is_known_by_both_ids() -> None:
    mark = SlackReadMark(floor="1.0").add(message("3.000000", thread="2.000000"), "in_9")
    assert mark.thread_of(ts=None, inbox_id="in_9") == "2.000000"
    assert mark.thread_of(ts="3.000000", inbox_id=None) == "2.000000"
    assert mark.thread_of(ts="4.000000", inbox_id="") is None
