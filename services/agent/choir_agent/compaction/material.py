"""Text form of events, as input for the model that summarizes them. Pure.

Called by `compact` and `session_summary`. Each event is one JSON object per line, so that its content
cannot imitate another event. Outputs that a lane's prompts must not show are omitted here too.
"""

from collections.abc import Iterable, Sequence

import orjson

from choir_agent.log.committed import Committed
from choir_agent.memory.delta import SHORT_HASH
from choir_agent.memory.search import QUERY_TOOL
from choir_agent.prompt.render import shown, words_of
from choir_common.wire.events import (
    InjectedInstruction,
    ModelOutput,
    Reply,
    ReportBegun,
    ToolResultCommitted,
    UserMsg,
)
from choir_common.wire.json import JsonObject

LONGEST_TEXTS = (8_000, 4_000, 2_000, 1_000, 400, 150)


def lines_of(
    events: Iterable[Committed], lane: str, room: int, *, with_recalled: bool = True
) -> str:
    """Return the events as lines, shortened as far as needed to fit about `room` bytes.

    With `with_recalled=False`, results of memory queries are omitted: a recalled text must not be stored
    again.
    """
    told = [
        (event, _told(event, lane)) for event in events if with_recalled or not _is_recalled(event)
    ]
    text = ""
    for longest in LONGEST_TEXTS:
        text = "\n".join(_line(event, parts, longest) for event, parts in told)
        if len(text.encode()) <= room:
            return text
    # If even the shortest form is too long, keep the end: the newest events matter most.
    return text.encode()[-room:].decode(errors="ignore")


def hashes_of(events: Sequence[Committed]) -> tuple[str, ...]:
    """Return the event hashes that a summary of these events may refer to."""
    return tuple(event.hash for event in events if event.hash)


def _is_recalled(event: Committed) -> bool:
    payload = event.payload
    return isinstance(payload, ToolResultCommitted) and payload.tool == QUERY_TOOL


def _told(event: Committed, lane: str) -> dict[str, str]:
    match event.payload:
        case UserMsg() as said:
            return {"user": words_of(said)}
        case ModelOutput() as output:
            calls = "; ".join(f"{call.tool} {call.arguments}" for call in output.tool_calls)
            return {"assistant": output.text, **({"calls": calls} if calls else {})}
        case ToolResultCommitted() as result:
            content = orjson.dumps(shown(result, lane)).decode()
            return {"tool": result.tool, "result": content}
        case InjectedInstruction(text=text, by=by):
            return {f"instruction by {by}": text}
        case ReportBegun(brief=brief):
            return {"to be reported": brief}
        case Reply(text=text):
            return {"assistant": text}
        case _:
            return {}


def _line(event: Committed, parts: dict[str, str], longest: int) -> str:
    line: JsonObject = {"event": event.hash[:SHORT_HASH]}
    line |= {name: _shortened(text, longest) for name, text in parts.items()}
    return orjson.dumps(line).decode()


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    return f"{text[:head]} […] {text[-(longest - head) :]}"
