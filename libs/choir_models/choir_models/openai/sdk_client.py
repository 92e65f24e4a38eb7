"""Minimal client based on the openai SDK: posts bytes and returns the response body.

Imported at the first model call, because the import takes time and memory (see `sdk_import`). Uses `post`
instead of `chat.completions.create`, which costs 0.25 ms per message.
"""

import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import httpx2
import openai

from choir_models.model import ModelFailed, NoModelResponse
from choir_models.provider_errors import error_from_response, shorten

MAX_BODY = 16 << 20
"""Maximum bytes of a response. A completion has a few kilobytes; an endless response would exhaust
memory."""
LIMITS = httpx2.Limits(max_connections=16, max_keepalive_connections=8, keepalive_expiry=60.0)
CONNECT_S = 10.0
GZIP = zlib.MAX_WBITS | 16
UNPACK_CHUNK = 1 << 20
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class _ResponseTooLarge(httpx2.TransportError):
    """The response exceeds MAX_BODY or is not valid gzip."""


class _LimitedStream(httpx2.AsyncByteStream):
    """Response bytes, unpacked with a size limit because compressed data can expand without bound."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, is_packed: bool) -> None:
        self._stream = stream
        self._unpacker = zlib.decompressobj(GZIP) if is_packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            for part in self._unpacked(chunk):
                size += len(part)
                if size > MAX_BODY:
                    raise _ResponseTooLarge(f"its response exceeds {MAX_BODY >> 20} MB")
                yield part

    def _unpacked(self, chunk: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield chunk
            return
        while chunk:
            try:
                yield self._unpacker.decompress(chunk, UNPACK_CHUNK)
            except zlib.error as error:
                raise _ResponseTooLarge(f"its response cannot be decompressed: {error}") from error
            chunk = self._unpacker.unconsumed_tail

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # Only gzip, which `_LimitedStream` unpacks within its limit.
        request.headers["accept-encoding"] = "gzip"
        response = await super().handle_async_request(request)
        encoding = response.headers.pop("content-encoding", "identity").lower()
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _LimitedStream(response.stream, is_packed=encoding == "gzip")
        return response


class OpenAiClient:
    """Client for one endpoint with one key."""

    def __init__(self, endpoint: str, api_key: str | None) -> None:
        self._api_key = api_key
        # A plain-HTTP endpoint needs no certificates, and the bundle takes 3 MB.
        verify = not endpoint.startswith("http://")
        self._client = openai.AsyncOpenAI(
            base_url=endpoint,
            # The SDK requires a key, even for an endpoint without one.
            api_key=api_key or "none",
            # The caller retries.
            max_retries=0,
            http_client=httpx2.AsyncClient(
                transport=_Transport(verify=verify, limits=LIMITS),
                # The key must reach the configured endpoint only.
                follow_redirects=False,
            ),
        )

    async def complete(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str] = NO_HEADERS
    ) -> bytes:
        """Post a chat completion request and return the response's body.

        Raises RateLimited, ContextOverflow or another ModelFailed.
        """
        try:
            response = await self._client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=body,
                options={
                    "headers": {**headers, "Content-Type": "application/json"},
                    "timeout": httpx2.Timeout(timeout_s, connect=CONNECT_S),
                },
            )
        except openai.APIStatusError as error:
            answer = error.response
            now = datetime.now(UTC)
            raise error_from_response(
                answer.status_code, answer.content, answer.headers, now, self._api_key
            ) from error
        except openai.APITimeoutError as error:
            if isinstance(error.__cause__, httpx2.ConnectTimeout):
                message = f"the provider did not accept a connection within {CONNECT_S:g} s"
                raise NoModelResponse(message, cause="connection") from error
            message = f"the provider did not answer within {timeout_s:g} s"
            raise ModelFailed(message, cause="timeout") from error
        except openai.APIConnectionError as error:
            reason = str(error.__cause__ or error)
            message = shorten(f"the connection to the provider failed: {reason}", self._api_key)
            if isinstance(error.__cause__, _ResponseTooLarge):
                raise ModelFailed(message, cause="format") from error
            raise NoModelResponse(message, cause="connection") from error
        except openai.OpenAIError as error:
            raise ModelFailed(shorten(f"the model call failed: {error}", self._api_key)) from error
        return response.content

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
