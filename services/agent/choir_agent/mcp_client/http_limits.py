"""Limit on the responses of an MCP server: the SDK limits events of a stream, but no JSON document."""

from collections.abc import AsyncIterator

import httpx2

EVENT_STREAM = "text/event-stream"


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
    """Passes requests on, and limits the bodies of the responses, except those of event streams."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, max_bytes: int) -> None:
        self._transport, self._max_bytes = transport, max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; raises the errors of httpx2."""
        response = await self._transport.handle_async_request(request)
        kind = response.headers.get("content-type", "")
        if not kind.startswith(EVENT_STREAM) and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _LimitedStream(response.stream, self._max_bytes)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()
