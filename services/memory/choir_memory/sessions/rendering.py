"""Render events of tools and jobs as searchable text: pure.

Only content that all lanes may read is rendered: an output that prompts do not show must not be shown by
memory either.
"""

from collections.abc import Iterator

import orjson
from pydantic import JsonValue

from choir_common.eventlog.tool_results import SEEN_BEFORE
from choir_common.wire.events import Event, ToolCallRequested, ToolResultCommitted
from choir_common.wire.model import JsonObject

INPUT_CHARS = 600
RESULT_CHARS = 2_000
"""Maximum characters of one result; the log has all of it, and longer outputs are usually in files."""
PART_CHARS = 4_000
"""Maximum characters of a unit; longer texts become several, because smaller units rank better."""
# calls of these tools are not rendered: their content is stored elsewhere in memory
UNRECORDED_TOOLS = ("choir.memory.", "choir.core.", "choir.skill.")


def remove_nul(event: Event) -> Event:
    """Return the event without NUL characters, which Postgres rejects."""
    if "\x00" not in event.lane and b"\\u0000" not in orjson.dumps(event.payload):
        return event
    payload = {_plain_text(name): _plain(value) for name, value in event.payload.items()}
    return event.model_copy(update={"payload": payload, "lane": _plain_text(event.lane)})


def is_unrecorded(tool: str) -> bool:
    """Return whether calls of this tool are left out."""
    return tool.startswith(UNRECORDED_TOOLS)


def render_call(call: ToolCallRequested) -> str:
    """Return a call as one line."""
    return f"{call.tool} {_short(orjson.dumps(call.input).decode(), INPUT_CHARS)}"


def render_result(result: ToolResultCommitted) -> str:
    """Return the result of a call, as far as all lanes may see it."""
    text = "\n".join(_lines(_visible(result)))
    return f"{result.tool} → {result.status}: {_short(text, RESULT_CHARS)}"


def render_object(value: JsonObject) -> str:
    """Return a JSON object as lines of text."""
    return _short("\n".join(_lines(value)), PART_CHARS)


def split_text(text: str, size: int = PART_CHARS) -> list[str]:
    """Split a text at the end of a paragraph, line, sentence or at least a word."""
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > size:
        cut = next(
            (
                at + len(end)
                for end in ("\n\n", "\n", ". ", "。", " ")
                if (at := _end(rest, end, size))
            ),
            size,
        )
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*parts, rest] if rest else parts


def _plain(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return _plain_text(value)
        case list():
            return [_plain(inner) for inner in value]
        case dict():
            return {_plain_text(name): _plain(inner) for name, inner in value.items()}
        case _:
            return value


def _plain_text(text: str) -> str:
    return text.replace("\x00", "")


def _end(text: str, end: str, size: int) -> int:
    """Return the position of the last `end` in the second half of the part, or 0."""
    return max(0, text.rfind(end, size // 2, size - len(end)))


def _visible(result: ToolResultCommitted) -> JsonObject:
    if result.exposure != "both":
        return {}
    if not result.masked:
        # hints from memory are not stored again
        return {name: value for name, value in result.output.items() if name != SEEN_BEFORE}
    return {"summary": result.output["summary"]} if "summary" in result.output else {}


def _lines(value: JsonValue, name: str = "") -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _lines(inner, key)
        case list():
            for inner in value:
                yield from _lines(inner, name)
        case None | "":
            return
        case _:
            yield f"{name}: {value}" if name else str(value)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
