"""Server-sent events (SSE): the parser.

The writer is `sse`; the parser is a separate module so that a reader need not import a web framework.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

MAX_LINE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event: `id` is the position to resume from, `event` the kind, `data` JSON text."""

    id: str
    event: str
    data: str


async def parse_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
    """Parse an event stream; comments are skipped, an incomplete last event is dropped.

    Raises ValueError if a line is longer than 1,000,000 bytes.
    """
    buffer = b""
    fields: dict[str, str] = {}
    async for chunk in chunks:
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        if len(buffer) > MAX_LINE_BYTES:
            raise ValueError("an event stream line is too long")
        for line in lines:
            text = line.rstrip(b"\r").decode()
            if text:
                _take(fields, text)
            elif "data" in fields:
                yield ServerSentEvent(
                    fields.get("id", ""), fields.get("event", "message"), fields["data"]
                )
                fields = {}


def _take(fields: dict[str, str], line: str) -> None:
    name, _, value = line.partition(":")
    value = value.removeprefix(" ")
    if name == "data" and "data" in fields:
        fields["data"] += "\n" + value
    elif name:
        fields[name] = value
