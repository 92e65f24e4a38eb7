"""Transport to an MCP server by URL: limits responses, and notices when the server forgot the session.

The SDK limits events of a stream, but no JSON document, and it does not start a new session.
"""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import httpx2

EVENT_STREAM = "text/event-stream"
SESSION_HEADER = "mcp-session-id"
FORGOTTEN = "the server has forgotten the session, as after a restart"


class _LimitedStream(httpx2.AsyncByteStream):
    """A response's body that ends with an error above a number of bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream, self._remaining = stream, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._remaining -= len(part)
            if self._remaining < 0:
                raise httpx2.ReadError("the response is too large")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class LimitedTransport(httpx2.AsyncBaseTransport):
    """Passes requests on, and limits the bodies of the responses, except those of event streams.

    `end` gets the reason when the server answers 404 to a session: the protocol asks for a new session then.
    """

    def __init__(
        self, transport: httpx2.AsyncBaseTransport, max_bytes: int, end: asyncio.Future[str]
    ) -> None:
        self._transport, self._max_bytes, self._end = transport, max_bytes, end

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; raises the errors of httpx2."""
        response = await self._transport.handle_async_request(request)
        is_unknown = response.status_code == HTTPStatus.NOT_FOUND
        if is_unknown and SESSION_HEADER in request.headers and not self._end.done():
            self._end.set_result(FORGOTTEN)
        kind = response.headers.get("content-type", "")
        if not kind.startswith(EVENT_STREAM) and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _LimitedStream(response.stream, self._max_bytes)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()
