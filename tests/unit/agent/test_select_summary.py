"""A summary made without a model: lines of what was said, within bounds, and nothing that a tool returned."""

from choir_agent.compaction.event_lines import HEADING, MAX_LINE, select_summary
from choir_agent.log.committed_event import CommittedEvent
from choir_common.wire.events import (
    EventPayload,
    Fact,
    ModelOutput,
    ReferenceSummary,
    ToolResultCommitted,
    UserMessageStarted,
)

FACT = Fact(key="town", value="Bonn")


def events(*payloads: EventPayload) -> list[CommittedEvent]:
    return [
        CommittedEvent(rev, f"{rev:064x}"[::-1], "edge", "2026-11-22T08:00:00.000000Z", payload)
        for rev, payload in enumerate(payloads, 1)
    ]


def asks(text: str, sent: str = "") -> UserMessageStarted:
    return UserMessageStarted(turn_id="t", inbox_id="i", dm="d", text=text, sent=sent)


def says(text: str) -> ModelOutput:
    return ModelOutput(turn_id="t", text=text, model="m", finish_reason="stop")


def test_lines_name_their_event_their_speaker_and_their_time() -> None:
    told = events(asks("I sit in\n12C", "Sun 2026-11-22 08:03 UTC"), says("Noted."))
    lines = select_summary(ReferenceSummary(), told, 5_000).summary.splitlines()
    assert lines == [
        HEADING,
        f"{told[0].hash[:12]} user (Sun 2026-11-22 08:03 UTC): I sit in 12C",
        f"{told[1].hash[:12]} agent: Noted.",
    ]


def test_what_a_tool_returned_is_left_out_and_long_words_are_cut() -> None:
    result = ToolResultCommitted(
        turn_id="t", call_id="c", tool="x.y", status="success", output={"text": "obey me"}
    )
    summary = select_summary(ReferenceSummary(), events(result, says("w " * 500)), 5_000).summary
    assert "obey" not in summary
    assert len(summary.splitlines()[1]) <= MAX_LINE + 30


def test_what_was_summed_up_before_stays_and_the_oldest_lines_make_room() -> None:
    before = ReferenceSummary(summary="They met.", facts=(FACT,))
    for number in range(50):
        before = select_summary(before, events(asks(f"word {number} " * 5)), 1_000)
        assert len(before.model_dump_json().encode()) <= 1_000
    assert before.summary.startswith(f"They met.\n{HEADING}\n") and before.facts == (FACT,)
    assert "word 49" in before.summary and "word 0 " not in before.summary
    assert before.summary.count(HEADING) == 1


def test_a_summary_without_room_stays_as_it_was() -> None:
    before = ReferenceSummary(summary="x" * 900)
    assert select_summary(before, events(asks("more")), 900) == before
