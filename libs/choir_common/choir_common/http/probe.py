"""Minimal HTTP client for readiness checks, and for questions to model servers.

Written by hand, because it is called many times a second during startup: a client library would cost the
resident supervisor more memory, and each request more time, than everything else.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

from choir_common.egress.key_placeholders import KeyProxy

UNIX = "unix://"
MOST_BYTES = 4 * 1024 * 1024
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """An HTTP response."""

    status: int
    body: bytes


async def send_probe(
    endpoint: str,
    path: str,
    within_s: float,
    body: bytes | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    proxy: KeyProxy | None = None,
) -> ProbeResponse | None:
    """Send GET (or POST with a JSON `body`) to `unix://…`, `http://…` or `https://…`.

    Returns None without a response. The endpoint's path, if any, precedes `path`. A request with the
    placeholder of a key goes through `proxy`.
    """
    method = "GET" if body is None else "POST"
    url = urlsplit("" if endpoint.startswith(UNIX) else endpoint)
    lines = [
        f"{method} {_proxied_origin(endpoint) if proxy else ''}{url.path.rstrip('/')}{path} HTTP/1.0",
        f"Host: {url.netloc.rpartition('@')[2] or 'localhost'}",
        "Content-Type: application/json",
        f"Content-Length: {len(body or b'')}",
        *([f"Proxy-Authorization: {proxy.authorization}"] if proxy else []),
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    request = "\r\n".join([*lines, "", ""]).encode() + (body or b"")
    try:
        async with asyncio.timeout(within_s):
            return _read(await _exchange(f"{UNIX}{proxy.socket}" if proxy else endpoint, request))
    except (OSError, ValueError, asyncio.LimitOverrunError):  # TimeoutError is an OSError
        return None


async def _exchange(endpoint: str, request: bytes) -> bytes:
    if endpoint.startswith(UNIX):
        reader, writer = await asyncio.open_unix_connection(endpoint.removeprefix(UNIX))
    else:
        url = urlsplit(endpoint)
        # certificates take 3 MB: only for an endpoint that needs them
        context = ssl.create_default_context() if url.scheme == "https" else None
        reader, writer = await asyncio.open_connection(url.hostname, _port(url), ssl=context)
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


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _proxied_origin(endpoint: str) -> str:
    url = urlsplit(endpoint)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return f"http://{host}:{_port(url)}"


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
