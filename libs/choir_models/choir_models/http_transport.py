"""HTTP transport for calls of models: limits the size of responses and the time to connect.

Imported with an SDK's client, because `httpx2` takes time and memory.
"""

import zlib
from collections.abc import AsyncIterator, Iterator

import httpx2

from choir_common.egress.key_placeholders import KeyProxy, is_placeholder
from choir_common.http.key_proxy_transport import KeyProxyTransport
from choir_common.http.socket_transport import TcpTransport
from choir_common.i18n import _
from choir_models.call_deadline import silence_failure
from choir_models.model import UNKNOWN_OUTPUT, ModelFailed, NoModelResponse
from choir_models.provider_errors import shorten

MAX_BODY = 16 << 20
"""Maximum bytes of a response. A completion has a few kilobytes; an endless response would exhaust
memory."""
CONNECT_S = 10.0
GZIP = zlib.MAX_WBITS | 16
UNPACK_CHUNK = 1 << 20


class ResponseTooLarge(httpx2.TransportError):
    """The response exceeds MAX_BODY or is not valid gzip."""


class CutResponse(httpx2.TransportError):
    """The connection ended within a whole response, which the provider sends after its end and bills."""


class _LimitedStream(httpx2.AsyncByteStream):
    """Response bytes, unpacked with a size limit because compressed data can expand without bound."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, is_packed: bool, is_whole: bool) -> None:
        """`is_whole`: the response is an answer that is not streamed."""
        self._stream = stream
        self._is_whole = is_whole
        self._unpacker = zlib.decompressobj(GZIP) if is_packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                for part in self._unpacked(chunk):
                    size += len(part)
                    if size > MAX_BODY:
                        raise ResponseTooLarge(f"its response exceeds {MAX_BODY >> 20} MB")
                    yield part
        except (httpx2.NetworkError, httpx2.ProtocolError) as error:
            if not self._is_whole:
                raise
            raise CutResponse(str(error)) from error

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield chunk
            return
        while chunk:
            try:
                yield self._unpacker.decompress(chunk, UNPACK_CHUNK)
            except zlib.error as error:
                raise ResponseTooLarge(f"its response cannot be decompressed: {error}") from error
            chunk = self._unpacker.unconsumed_tail

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # Only gzip, which `_LimitedStream` unpacks within its limit.
        request.headers["accept-encoding"] = "gzip"
        timeout = request.extensions.get("timeout", {})
        request.extensions["timeout"] = {**timeout, "connect": CONNECT_S}
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.pop("content-encoding", "identity").lower()
        if isinstance(response.stream, httpx2.AsyncByteStream):
            is_stream = "event-stream" in response.headers.get("content-type", "")
            response.stream = _LimitedStream(
                response.stream,
                is_packed=encoding == "gzip",
                is_whole=response.is_success and not is_stream,
            )
        return response


def create_http_client(
    endpoint: str, api_key: str | None, key_proxy: KeyProxy | None
) -> httpx2.AsyncClient:
    """Return an HTTP client for an endpoint; its connections have the limits of this module.

    If the key is a placeholder, requests go to `key_proxy`.
    """
    inner: httpx2.AsyncBaseTransport
    if key_proxy is not None and is_placeholder(api_key):
        inner = KeyProxyTransport(key_proxy)
    else:
        # A plain-HTTP endpoint needs no certificates, and the bundle takes 3 MB.
        is_plain = endpoint.startswith("http://")
        inner = TcpTransport(None if is_plain else httpx2.create_ssl_context())
    return httpx2.AsyncClient(
        transport=_Transport(inner),
        # The key must reach the configured endpoint only.
        follow_redirects=False,
    )


def connection_failure(error: BaseException, timeout_s: float, api_key: str | None) -> ModelFailed:
    """Return the failure for an error of the HTTP client."""
    if isinstance(error, httpx2.ConnectTimeout):
        message = _("the provider did not accept a connection within {connect_s:g} s").format(
            connect_s=CONNECT_S
        )
        return NoModelResponse(message, cause="connection")
    if isinstance(error, httpx2.TimeoutException):
        return silence_failure(timeout_s)
    reason = str(error) or type(error).__name__
    text = shorten(
        _("the connection to the provider failed: {reason}").format(reason=reason), api_key
    )
    if isinstance(error, ResponseTooLarge):
        return ModelFailed(text, cause="format", spent=UNKNOWN_OUTPUT)
    spent = UNKNOWN_OUTPUT if isinstance(error, CutResponse) else None
    return NoModelResponse(text, cause="connection", spent=spent)
