"""Client of the Matrix client-server API for one account: calls by their JSON.

Source: https://spec.matrix.org/latest/client-server-api/
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import IO, Self
from urllib.parse import quote

import httpx2

from choir_common.http.client import make_client
from choir_common.i18n import _
from choir_common.wire.model import JsonObject

API = "/_matrix/client/v3"
CALL_TIMEOUT_S = 30.0
UPLOAD_TIMEOUT_S = 60.0
MAX_RESPONSE_BYTES = 32 * 1024 * 1024
MAX_ERROR_CHARS = 300
PIECE_BYTES = 64 * 1024
DEFAULT_PAUSE_S = 5.0
MAX_REDIRECTS = 3

NETWORK_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL)


class MatrixError(Exception):
    """An error response of the homeserver."""

    def __init__(
        self, status: int, code: str, text: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(f"{status} {code}: {text}")
        self.status = status
        self.code = code
        """Its `errcode`; empty if the response is no error of Matrix, as that of a proxy."""
        self.text = text
        self.retry_after_s = retry_after_s


class MatrixClient:
    """Client of one account."""

    def __init__(self, homeserver: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        address = homeserver.rstrip("/")
        self._http = make_client(address, headers=headers, timeout_s=CALL_TIMEOUT_S)
        # Homeservers may redirect downloads to another server, which does not get the token.
        self.downloads = make_client(address, headers=headers, timeout_s=CALL_TIMEOUT_S)
        self.downloads.follow_redirects = True
        self.downloads.max_redirects = MAX_REDIRECTS

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        await self.downloads.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        await self.downloads.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        read_timeout_s: float = CALL_TIMEOUT_S,
    ) -> JsonObject:
        """Call the API and return the JSON of the response. Raises MatrixError and NETWORK_ERRORS."""
        async with self._http.stream(
            method,
            path,
            json=body,
            params=query,
            timeout=httpx2.Timeout(CALL_TIMEOUT_S, connect=5.0, read=read_timeout_s),
        ) as response:
            return await _read_json(response)

    async def upload(self, file: IO[bytes], *, name: str, mime: str, size: int) -> str:
        """Upload a file and return its `mxc://` address. Raises as `call`."""
        file.seek(0)
        async with self._http.stream(
            "POST",
            "/_matrix/media/v3/upload",
            params={"filename": name},
            content=_read_pieces(file),
            headers={"Content-Type": mime, "Content-Length": str(size)},
            timeout=httpx2.Timeout(UPLOAD_TIMEOUT_S, connect=5.0),
        ) as response:
            answer = await _read_json(response)
        return str(answer.get("content_uri", ""))


def make_path(*segments: str) -> str:
    """Return a path of the API; the segments are ids, which may contain any character."""
    return "/".join((API, *(quote(segment, safe="") for segment in segments)))


async def _read_pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
        yield piece


async def _read_json(response: httpx2.Response) -> JsonObject:
    raw = bytearray()
    async for piece in response.aiter_bytes(PIECE_BYTES):
        raw += piece
        if len(raw) > MAX_RESPONSE_BYTES:
            raise MatrixError(response.status_code, "", _("the response is too large"))
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        parsed = None
    body: JsonObject = parsed if isinstance(parsed, dict) else {}
    if response.is_success and isinstance(parsed, dict):
        return body
    code, text = body.get("errcode"), body.get("error")
    raise MatrixError(
        response.status_code,
        code if isinstance(code, str) else "",
        text[:MAX_ERROR_CHARS] if isinstance(text, str) else _("no JSON of Matrix"),
        retry_after_s=_pause_s(response, body),
    )


def _pause_s(response: httpx2.Response, body: JsonObject) -> float | None:
    if response.status_code != httpx2.codes.TOO_MANY_REQUESTS:
        return None
    pause_ms = body.get("retry_after_ms")
    if isinstance(pause_ms, int | float) and pause_ms >= 0:
        return pause_ms / 1000
    seconds = response.headers.get("retry-after", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() else DEFAULT_PAUSE_S
