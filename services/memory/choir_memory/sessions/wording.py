"""Put events of tools and jobs into words that search can find: pure. Called by `chunks`.

Only what every lane may read is put down: an output that a prompt does not show is not shown by memory
either.
"""

from collections.abc import Iterator

import orjson
from pydantic import JsonValue

from choir_common.eventlog.failure import SEEN_BEFORE
from choir_common.wire.events import Event, ToolCallRequested, ToolResultCommitted
from choir_common.wire.json import JsonObject

INPUT_CHARS = 600
RESULT_CHARS = 2_000
"""Of one call; the whole stands in the log, and a tool that says more says it in a file."""
PART_CHARS = 4_000
"""Longer words become several units: search ranks a page better than a book."""
# what an agent asks of its own memory, jobs and skills; what they say stands elsewhere in words of its own
QUIET = ("choir.memory.", "choir.core.", "choir.skill.")


def plain(event: Event) -> Event:
    """Return the event without NUL characters, which no table takes."""
    if "\x00" not in event.lane and b"\\u0000" not in orjson.dumps(event.payload):
        return event
    payload = {_plain_text(name): _plain(value) for name, value in event.payload.items()}
    return event.model_copy(update={"payload": payload, "lane": _plain_text(event.lane)})


def is_quiet(tool: str) -> bool:
    """Tell whether a call of this tool says nothing worth finding."""
    return tool.startswith(QUIET)


def asked(call: ToolCallRequested) -> str:
    """Return a call in one line."""
    return f"{call.tool} {_short(orjson.dumps(call.input).decode(), INPUT_CHARS)}"


def answered(result: ToolResultCommitted) -> str:
    """Return what came of a call, as far as every lane may see it."""
    said = "\n".join(_lines(_visible(result)))
    return f"{result.tool} → {result.status}: {_short(said, RESULT_CHARS)}"


def spoken(value: JsonObject) -> str:
    """Return a JSON object as lines of text."""
    return _short("\n".join(_lines(value)), PART_CHARS)


def parts(text: str, size: int = PART_CHARS) -> list[str]:
    """Cut a text where a paragraph, a line, a sentence or at least a word ends."""
    made: list[str] = []
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
        made.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*made, rest] if rest else made


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
    """Return where the last `end` begins in the second half of the part, or 0."""
    return max(0, text.rfind(end, size // 2, size - len(end)))


def _visible(result: ToolResultCommitted) -> JsonObject:
    if result.exposure != "both":
        return {}
    if not result.masked:
        # what was remembered is not remembered again
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
