"""Parse and rewrite HTTP/1.1 message heads. Used by proxies and forwarding.py."""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_HEAD_BYTES = 64_000
REASON_FIELD = "choir-egress"
"""Header of responses that come from the egress proxy itself; their body is the reason."""
# Hop-by-hop headers and those for the proxy are not forwarded.
_DROPPED = frozenset(
    {"connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "upgrade"}
)


class InvalidHead(Exception):
    """The input is not HTTP as a client of a proxy sends it."""


@dataclass(frozen=True, slots=True)
class HttpHead:
    """A start line and its header fields, as received."""

    start: tuple[str, str, str]
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        """Return the first field with that name (lower case), or None."""
        return next((value for key, value in self.fields if key.lower() == name), None)

    def render(self, start: str) -> bytes:
        """Return the bytes of this head with another start line and `Connection: close`."""
        fields = [f"{k}: {v}" for k, v in self.fields if k.lower() not in _DROPPED]
        return "\r\n".join([start, *fields, "Connection: close", "", ""]).encode("latin-1")


async def read_head(reader: asyncio.StreamReader) -> HttpHead | None:
    """Read one head; return None if the peer disconnected before it began.

    Raises InvalidHead if it is malformed or longer than 64,000 bytes.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise InvalidHead from error
        return None
    except (asyncio.LimitOverrunError, OSError) as error:
        raise InvalidHead from error
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    start = first.split(" ", 2)
    if len(start) < 2:
        raise InvalidHead
    fields = [line.partition(":") for line in lines]
    if any(not colon or key != key.strip() for key, colon, _ in fields):
        raise InvalidHead
    headers = tuple((key, value.strip()) for key, _, value in fields)
    return HttpHead((start[0], start[1], start[2] if len(start) > 2 else ""), headers)


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """The target of a proxy request."""

    host: str
    port: int
    path: str


def parse_target(method: str, uri: str) -> ProxyTarget:
    """Parse the target of a proxy request: `host:port` of CONNECT, else an absolute http URL.

    Raises InvalidHead for any other form.
    """
    try:
        if method == "CONNECT":
            parts = urlsplit(f"//{uri}")
            return ProxyTarget(parts.hostname or "", parts.port or 0, "")
        parts = urlsplit(uri)
        if parts.scheme != "http" or not parts.hostname:
            raise InvalidHead
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return ProxyTarget(parts.hostname, parts.port or 80, path)
    except ValueError as error:
        raise InvalidHead from error
