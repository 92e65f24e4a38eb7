"""Compaction without a model: keeps the beginning of each message as one line. Pure.

Called by `compact` if the model is unavailable or its answers are unusable. Only texts of the user and the
agent, and instructions, are kept. Tool results stay in the log, where the hash at the start of each line
leads.
"""

from collections.abc import Sequence
from typing import Any

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.working_memory.memory_delta import SHORT_HASH_LENGTH
from choir_common.wire.events import (
    InjectedInstruction,
    ModelOutput,
    ReferenceSummary,
    Reply,
    UserMessageStarted,
)

HEADING = "Selected lines of what was said, cut short, each behind the hash of its event:"
MAX_LINE = 240


def select_summary(
    before: ReferenceSummary, events: Sequence[CommittedEvent], room: int
) -> ReferenceSummary:
    """Return the summary with lines of the events added; the oldest lines are dropped to fit `room`."""
    written, _, selected = before.summary.partition(HEADING)
    earlier = [line for line in selected.splitlines() if line]
    lines = [*earlier, *filter(None, map(_line, events))]
    while lines:
        summary = _with_text(before, "\n".join([written.rstrip(), HEADING, *lines]).strip())
        if len(summary.model_dump_json().encode()) <= room:
            return summary
        lines = lines[max(1, len(lines) // 10) :]
    return before


def _with_text(before: ReferenceSummary, text: str) -> ReferenceSummary:
    update: dict[str, Any] = {"summary": text}
    return before.model_copy(update=update)


def _line(event: CommittedEvent) -> str:
    match event.payload:
        case UserMessageStarted() as said:
            when = f" ({said.sent})" if said.sent else ""
            who, text = f"user{when}", said.text
        case InjectedInstruction(text=text):
            who = "instruction"
        case ModelOutput(text=text) | Reply(text=text):
            who = "agent"
        case _:
            return ""
    flat = " ".join(text.split())
    if not flat:
        return ""
    cut = flat if len(flat) <= MAX_LINE else flat[: MAX_LINE - 1] + "…"
    return f"{event.hash[:SHORT_HASH_LENGTH]} {who}: {cut}"
