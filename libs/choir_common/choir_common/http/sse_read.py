"""Read server-sent events (SSE).

Used by the agent (signals), by `choirctl chat` and the gateway; their writer is `sse`. It stands alone
so that a reader need not load a web framework.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

MAX_LINE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event: `id` resumes the stream, `event` names the kind, `data` is JSON text."""

    id: str
    event: str
    data: str


async def read(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
    """Parse an event stream; comments are passed over, an unfinished last event is dropped.

    Raises ValueError when a line is longer than 1,000,000 bytes.
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
