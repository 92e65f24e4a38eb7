"""Sizes of turns in the window of a lane."""

import pytest

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.working_memory import lane_window
from choir_agent.working_memory.lane_window import LaneWindow, event_size
from choir_common.wire.attachments import AttachmentText
from choir_common.wire.events import AttachmentsRead, UserMessageStarted

MESSAGE = UserMessageStarted(turn_id="t1", inbox_id="in_1", dm="console", text="read this")
HEAD = CommittedEvent(1, "", "edge", "", MESSAGE)


def test_the_head_of_a_turn_is_measured_again_only_when_it_gets_notes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = []

    def measure(event: CommittedEvent) -> int:
        measured.append(event)
        return event_size(event)

    monkeypatch.setattr(lane_window, "event_size", measure)
    window = LaneWindow("edge")
    window.start_turn("t1", HEAD)
    [turn] = window.turns
    assert [turn.size for _ in range(3)] == [event_size(HEAD)] * 3
    assert len(measured) == 1
    text = AttachmentText(path="f.txt", text="the file's text")
    window.attach_notes(AttachmentsRead(turn_id="t1", texts=(text,)))
    assert turn.size == event_size(HEAD) + turn.notes.size > event_size(HEAD)
    assert len(measured) == 2
