"""Text form of events for compaction, with and without a model. Pure.

As input for a model, each event is one JSON object per line, so that its content cannot imitate another
event. Outputs that a lane's prompts must not show are omitted here too.

Without a model, `select_summary` keeps the beginning of each message as one line: only texts of the user and
the agent, and instructions. Tool results stay in the log, where the hash at the start of each line leads.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.prompt.event_messages import user_text, visible_result
from choir_agent.working_memory.lane_window import HeadNotes
from choir_agent.working_memory.log_search import QUERY_TOOL
from choir_agent.working_memory.memory_delta import SHORT_HASH_LENGTH
from choir_common.wire.attachments import AttachmentText
from choir_common.wire.events import (
    InjectedInstruction,
    ModelOutput,
    PictureDescribed,
    ReferenceSummary,
    Reply,
    ReportBegun,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.model import JsonObject
from choir_common.wire.speakers import format_speaker

TEXT_LIMITS = (8_000, 4_000, 2_000, 1_000, 400, 150)
HEADING = "Selected lines of the conversation, shortened, each after the hash of its event:"
MAX_LINE = 240
NO_NOTES: Mapping[int, HeadNotes] = MappingProxyType({})


def render_event_lines(
    events: Iterable[CommittedEvent],
    lane: str,
    room: int,
    *,
    notes: Mapping[int, HeadNotes] = NO_NOTES,
    with_recalled: bool = True,
) -> str:
    """Return the events as lines, shortened as far as needed to fit about `room` bytes.

    `notes` has what was read in the files of messages, by the messages' revisions.
    With `with_recalled=False`, results of memory queries are omitted: a recalled text must not be stored
    again.
    """
    rendered = [
        (event, _event_texts(event, lane) | _file_texts(notes.get(event.rev)))
        for event in events
        if with_recalled or not _is_recalled(event)
    ]
    text = ""
    for longest in TEXT_LIMITS:
        text = "\n".join(_line(event, parts, longest) for event, parts in rendered)
        if len(text.encode()) <= room:
            return text
    # If even the shortest form is too long, keep the end: the newest events matter most.
    return text.encode()[-room:].decode(errors="ignore")


def event_hashes(events: Sequence[CommittedEvent]) -> tuple[str, ...]:
    """Return the event hashes that a summary of these events may refer to."""
    return tuple(event.hash for event in events if event.hash)


def _is_recalled(event: CommittedEvent) -> bool:
    payload = event.payload
    return isinstance(payload, ToolResultCommitted) and payload.tool == QUERY_TOOL


def _event_texts(event: CommittedEvent, lane: str) -> dict[str, str]:
    match event.payload:
        case UserMessageStarted() as message:
            return {"user": user_text(message)}
        case ModelOutput() as output:
            calls = "; ".join(f"{call.tool} {call.arguments}" for call in output.tool_calls)
            return {"assistant": output.text, **({"calls": calls} if calls else {})}
        case ToolResultCommitted() as result:
            content = orjson.dumps(visible_result(result, lane)).decode()
            return {"tool": result.tool, "result": content}
        case InjectedInstruction(text=text, by=by):
            return {f"instruction by {by}": text}
        case ReportBegun(brief=brief):
            return {"to be reported": brief}
        case Reply(text=text):
            return {"assistant": text}
        case PictureDescribed(text=text) as picture if text:
            return {"picture": f"{picture.path}: {text}"}
        case _:
            return {}


def _file_texts(notes: HeadNotes | None) -> dict[str, str]:
    if notes is None:
        return {}
    files: list[AttachmentText | PictureDescribed] = [*notes.texts, *notes.descriptions]
    texts = [f"{file.path}: {file.text}" for file in files if file.text]
    return {"in its files": "\n\n".join(texts)} if texts else {}


def _line(event: CommittedEvent, parts: dict[str, str], longest: int) -> str:
    line: JsonObject = {"event": event.hash[:SHORT_HASH_LENGTH]}
    line |= {name: _shorten(text, longest) for name, text in parts.items()}
    return orjson.dumps(line).decode()


def _shorten(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    return f"{text[:head]} […] {text[-(longest - head) :]}"


def select_summary(
    before: ReferenceSummary, events: Sequence[CommittedEvent], room: int
) -> ReferenceSummary:
    """Return the summary with lines of the events added; the oldest lines are dropped to fit `room`."""
    model_text, _, selection = before.summary.partition(HEADING)
    earlier_lines = [line for line in selection.splitlines() if line]
    lines = [*earlier_lines, *filter(None, map(_selected_line, events))]
    while lines:
        summary = _with_text(before, "\n".join([model_text.rstrip(), HEADING, *lines]).strip())
        if len(summary.model_dump_json().encode()) <= room:
            return summary
        lines = lines[max(1, len(lines) // 10) :]
    return before


def _with_text(before: ReferenceSummary, text: str) -> ReferenceSummary:
    update: dict[str, Any] = {"summary": text}
    return before.model_copy(update=update)


def _selected_line(event: CommittedEvent) -> str:
    match event.payload:
        case UserMessageStarted() as message:
            sent = f" ({message.sent})" if message.sent else ""
            author = format_speaker(message.speaker).removeprefix("from ") or "user"
            if message.wake_up is not None:
                author = message.wake_up.outside or "schedule"
            author, text = f"{author}{sent}", message.text
        case InjectedInstruction(text=text):
            author = "instruction"
        case ModelOutput(text=text) | Reply(text=text):
            author = "agent"
        case _:
            return ""
    flat = " ".join(text.split())
    if not flat:
        return ""
    shortened = flat if len(flat) <= MAX_LINE else flat[: MAX_LINE - 1] + "…"
    return f"{event.hash[:SHORT_HASH_LENGTH]} {author}: {shortened}"
