"""Download a file through the browser, with its cookies and proxy, without using its disk.

Called by context.py. The response to a navigation is paused after its head, and its body is read as a
stream. So a server that sends endlessly costs no more than the size limit.
"""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Self

from playwright.async_api import CDPSession, Error
from pydantic import BaseModel, ConfigDict

from choir_browser.blobs.store import CHUNK_BYTES, BlobStore, BlobWriter
from choir_browser.egress.proxy import GUARD_HEADER
from choir_browser.pages.error_translation import net_error_text
from choir_browser.pages.filenames import download_name, url_origin
from choir_common.errors import Forbidden, InvalidRequest, TooLarge, Unavailable
from choir_common.wire.browser import DownloadHandle

# After a click, until the first response; the transfer may take longer.
RESPONSE_TIMEOUT_S = 15.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    value: str


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str


class _PausedResponse(BaseModel):
    """A request that Chromium paused when its response head arrived."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    requestId: str  # noqa: N815 - Chromium's own word
    frameId: str  # noqa: N815
    request: _Request
    responseStatusCode: int = 0  # noqa: N815
    responseErrorReason: str = ""  # noqa: N815
    responseHeaders: tuple[_Header, ...] = ()  # noqa: N815

    def header(self, name: str) -> str:
        return next((h.value for h in self.responseHeaders if h.name.lower() == name), "")


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    """A downloaded file, and its URL after redirects."""

    blob: DownloadHandle
    url: str
    origin: str
    status: int


class DownloadInterceptor:
    """Pauses the responses to a tab's navigations while it is open."""

    def __init__(self, line: CDPSession) -> None:
        self._line = line
        self._frame = ""
        self._responses: asyncio.Queue[_PausedResponse] = asyncio.Queue(maxsize=100)

    async def __aenter__(self) -> Self:
        """Start pausing responses."""
        # Asked first: a page that is navigating away does not answer.
        tree = await self._line.send("Page.getFrameTree")
        self._frame = str(tree["frameTree"]["frame"]["id"])
        self._line.on("Fetch.requestPaused", self._on_paused)
        pattern = {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"}
        await self._line.send("Fetch.enable", {"patterns": [pattern]})
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop pausing responses."""
        self._line.remove_listener("Fetch.requestPaused", self._on_paused)
        with contextlib.suppress(Error):
            await self._line.send("Fetch.disable")

    async def fetch(
        self, begin: Callable[[], Awaitable[object]], blobs: BlobStore
    ) -> DownloadedFile:
        """Run `begin`, which makes the browser request a file, and store the response.

        Raises Forbidden from the guard, InvalidRequest if the response is not a file, and TooLarge.
        """
        beginning = asyncio.create_task(_ignore_abort(begin))
        waiting = asyncio.create_task(self._head())
        try:
            await asyncio.wait({beginning, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                await beginning  # raises its error
                await asyncio.wait({waiting}, timeout=RESPONSE_TIMEOUT_S)
            if not waiting.done():
                raise InvalidRequest(f"No download started within {RESPONSE_TIMEOUT_S:g} s.")
            head = waiting.result()
            try:
                return await self._body(head, blobs)
            finally:
                await self._abort(head)
        finally:
            for task in (beginning, waiting):
                task.cancel()
            await asyncio.gather(beginning, waiting, return_exceptions=True)

    def _on_paused(self, event: Mapping[str, object]) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._responses.put_nowait(_PausedResponse.model_validate(event))

    async def _head(self) -> _PausedResponse:
        """Wait for the file's response; let redirects and other frames continue."""
        while True:
            paused = await self._responses.get()
            if paused.frameId == self._frame and paused.responseStatusCode not in REDIRECTS:
                return paused
            await self._line.send("Fetch.continueRequest", {"requestId": paused.requestId})

    async def _body(self, head: _PausedResponse, blobs: BlobStore) -> DownloadedFile:
        await self._judge(head)
        answer = await self._line.send(
            "Fetch.takeResponseBodyAsStream", {"requestId": head.requestId}
        )
        draft = blobs.new_blob()
        try:
            await self._drain(str(answer["stream"]), draft, head.header("content-length"))
        except BaseException:
            draft.close()
            raise
        mime = head.header("content-type").partition(";")[0].strip().lower()
        mime = mime or "application/octet-stream"
        name = download_name(head.request.url, head.header("content-disposition"), mime)
        blob = blobs.store(draft, name, mime[:100])
        url = head.request.url
        return DownloadedFile(blob, url, url_origin(url), head.responseStatusCode)

    async def _judge(self, head: _PausedResponse) -> None:
        if head.responseErrorReason or not head.responseStatusCode:
            why = net_error_text(head.responseErrorReason)
            raise InvalidRequest(f"{head.request.url} could not be fetched: {why}.")
        if head.header(GUARD_HEADER):
            answer = await self._line.send("Fetch.getResponseBody", {"requestId": head.requestId})
            text = str(answer["body"])
            if answer.get("base64Encoded"):
                text = base64.b64decode(text).decode(errors="replace")
            forbidden = head.header(GUARD_HEADER) == Forbidden.code
            raise Forbidden(text) if forbidden else Unavailable(text)
        if not 200 <= head.responseStatusCode < 300:
            raise InvalidRequest(
                f"{head.request.url} returned status {head.responseStatusCode}, not a file."
            )

    async def _drain(self, stream: str, draft: BlobWriter, length_header: str) -> None:
        try:
            if length_header.isdigit() and int(length_header) > draft.max_bytes:
                raise TooLarge(draft.too_large)
            while True:
                piece = await self._line.send("IO.read", {"handle": stream, "size": CHUNK_BYTES})
                data = str(piece["data"])
                raw = base64.b64decode(data) if piece.get("base64Encoded") else data.encode()
                await asyncio.to_thread(draft.write, raw)
                if piece["eof"]:
                    return
        finally:
            with contextlib.suppress(Error):
                await self._line.send("IO.close", {"handle": stream})

    async def _abort(self, head: _PausedResponse) -> None:
        """Abort the request in the browser: the body was read here."""
        failing = {"requestId": head.requestId, "errorReason": "Aborted"}
        with contextlib.suppress(Error):
            await self._line.send("Fetch.failRequest", failing)


async def _ignore_abort(begin: Callable[[], Awaitable[object]]) -> None:
    """Run `begin` and ignore that the browser reports the navigation as aborted, which we caused."""
    with contextlib.suppress(Error):
        await begin()
