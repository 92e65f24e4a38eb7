"""Text form of events, as input for the model that summarizes them. Pure.

Called by `compact` and `session_summary`. Each event is one JSON object per line, so that its content
cannot imitate another event. Outputs that a lane's prompts must not show are omitted here too.
"""

from collections.abc import Iterable, Sequence

import orjson

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.prompt.event_messages import user_text, visible_result
from choir_agent.working_memory.log_search import QUERY_TOOL
from choir_agent.working_memory.memory_delta import SHORT_HASH_LENGTH
from choir_common.wire.events import (
    InjectedInstruction,
    ModelOutput,
    Reply,
    ReportBegun,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.model import JsonObject

TEXT_LIMITS = (8_000, 4_000, 2_000, 1_000, 400, 150)


def render_event_lines(
    events: Iterable[CommittedEvent], lane: str, room: int, *, with_recalled: bool = True
) -> str:
    """Return the events as lines, shortened as far as needed to fit about `room` bytes.

    With `with_recalled=False`, results of memory queries are omitted: a recalled text must not be stored
    again.
    """
    told = [
        (event, _event_texts(event, lane))
        for event in events
        if with_recalled or not _is_recalled(event)
    ]
    text = ""
    for longest in TEXT_LIMITS:
        text = "\n".join(_line(event, parts, longest) for event, parts in told)
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
        case UserMessageStarted() as said:
            return {"user": user_text(said)}
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
        case _:
            return {}


def _line(event: CommittedEvent, parts: dict[str, str], longest: int) -> str:
    line: JsonObject = {"event": event.hash[:SHORT_HASH_LENGTH]}
    line |= {name: _shortened(text, longest) for name, text in parts.items()}
    return orjson.dumps(line).decode()


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    return f"{text[:head]} […] {text[-(longest - head) :]}"
