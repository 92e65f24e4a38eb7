"""Minimal HTTP client for local servers. Used for readiness checks and by `model_choice`.

Written by hand, because it is called many times a second during startup: a client library would cost the
resident supervisor more memory, and each request more time, than everything else.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from urllib.parse import urlsplit

UNIX = "unix://"
MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """An HTTP response."""

    status: int
    body: bytes


async def send_probe(
    endpoint: str, path: str, within_s: float, body: bytes | None = None
) -> ProbeResponse | None:
    """Send GET (or POST with a JSON `body`) to `unix://…` or `http://…`; return None without a response."""
    method = "GET" if body is None else "POST"
    head = f"{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b"")
    try:
        async with asyncio.timeout(within_s):
            return _read(await _exchange(endpoint, request))
    except (OSError, ValueError, asyncio.LimitOverrunError):  # TimeoutError is an OSError
        return None


async def _exchange(endpoint: str, request: bytes) -> bytes:
    if endpoint.startswith(UNIX):
        reader, writer = await asyncio.open_unix_connection(endpoint.removeprefix(UNIX))
    else:
        url = urlsplit(endpoint)
        reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
    try:
        writer.write(request)
        parts = []
        size = 0
        while part := await reader.read(65_536):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise ValueError("the response is too large")
        return b"".join(parts)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _read(answer: bytes) -> ProbeResponse | None:
    head, _, body = answer.partition(b"\r\n\r\n")
    status_line = head.split(b"\r\n", 1)[0].split()
    if (
        len(status_line) < 2
        or not status_line[0].startswith(b"HTTP/")
        or not status_line[1].isdigit()
    ):
        return None
    return ProbeResponse(int(status_line[1]), body)
