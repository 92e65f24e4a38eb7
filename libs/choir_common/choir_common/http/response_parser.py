"""Parsing of a Choir service's responses: RFC 9457 problem documents, and server-sent events (SSE).

Used by every HTTP client of a Choir service. The writer is `responses`; the parsers are a separate module so
that a client need not import a web framework.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import ChoirError, ErrorEnvelope, from_envelope
from choir_common.i18n import _

CONTENT_TYPE = "application/problem+json"
LANGUAGE_HEADER = "X-Choir-Language"
"""Names the language of the `detail` of a problem, as a tag; browsers do not send it by themselves."""
MAX_LINE_BYTES = 1_000_000


class Problem(BaseModel):
    """An error over HTTP; `code` is stable, `detail` is for people."""

    model_config = ConfigDict(frozen=True)

    type: str
    title: str
    status: int
    detail: str
    code: str


def read_problem(status: int, body: bytes, retry_after: str | None = None) -> ChoirError:
    """Rebuild the error from a response with status 400 or more; `retry_after` is its header."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        return ChoirError(_("HTTP {status} without a problem document.").format(status=status))
    wait_s = float(retry_after) if retry_after and retry_after.isdecimal() else None
    envelope = ErrorEnvelope(code=problem.code, message=problem.detail, retry_after_s=wait_s)
    return from_envelope(envelope)


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event: `id` is the position to resume from, `event` the kind, `data` JSON text."""

    id: str
    event: str
    data: str


class EventStreamReader:
    """Incremental parser of an event stream; comments are skipped, an incomplete last event is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, str] = {}

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that this chunk completes.

        Raises ValueError if a line is longer than 1,000,000 bytes.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise ValueError("an event stream line is too long")
        for line in lines:
            text = line.rstrip(b"\r").decode()
            if text:
                _take(self._fields, text)
            elif "data" in self._fields:
                fields, self._fields = self._fields, {}
                yield ServerSentEvent(
                    fields.get("id", ""), fields.get("event", "message"), fields["data"]
                )


async def parse_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
    """Parse an event stream; raises the errors of `EventStreamReader.feed`."""
    parser = EventStreamReader()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event


def _take(fields: dict[str, str], line: str) -> None:
    name, _, value = line.partition(":")
    value = value.removeprefix(" ")
    if name == "data" and "data" in fields:
        fields["data"] += "\n" + value
    elif name:
        fields[name] = value
