"""Minimal client based on the anthropic SDK: posts bytes, and returns a response's body or its events.

Imported at the first model call, because the import takes time and memory (see `sdk_import`).
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import anthropic
import httpx2
import orjson

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_models.http_transport import connection_failure, create_http_client
from choir_models.model import ModelFailed
from choir_models.provider_errors import error_from_response

PATH = "/v1/messages"
FIRST_ERROR = 400
_UNREAD = {"X-Stainless-Raw-Response": "stream"}
"""Makes the SDK return a response before its body has arrived."""


class _ErrorResponse(httpx2.TransportError):
    """A response with an error status.

    Raised before the SDK sees it: the SDK's own errors need its types, which are not imported.
    """

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(f"status {response.status_code}")
        self.response = response


async def _raise_for_status(response: httpx2.Response) -> None:
    if response.status_code >= FIRST_ERROR:
        await response.aread()
        raise _ErrorResponse(response)


class AnthropicClient:
    """Client for one endpoint with one key."""

    def __init__(
        self, endpoint: str, api_key: str | None, key_proxy: KeyProxy | None = None
    ) -> None:
        self._api_key = api_key
        http_client = create_http_client(endpoint, api_key, key_proxy)
        http_client.event_hooks = {"response": [_raise_for_status]}
        self._client = anthropic.AsyncAnthropic(
            # Without `/v1`, which the endpoints of other APIs end with.
            base_url=endpoint.rstrip("/").removesuffix("/v1"),
            # Without a key the SDK would look for one in the environment and in files.
            api_key=api_key or "none",
            # The caller retries.
            max_retries=0,
            http_client=http_client,
            open_telemetry=False,
        )

    async def complete(self, body: bytes, timeout_s: float, headers: Mapping[str, str]) -> bytes:
        """Post a request and return the response's body.

        Raises RateLimited, ContextOverflow or another ModelFailed.
        """
        with self._translated_errors(timeout_s):
            response = await self._post(body, timeout_s, headers)
            try:
                return await response.aread()
            finally:
                await response.aclose()

    async def stream(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str]
    ) -> AsyncGenerator[JsonObject | bytes, None]:
        """Post a request and yield the events of the response, or the body of one that is not a stream.

        Raises the errors of `complete`, and ModelFailed for an event that is not JSON. Close the iterator:
        that closes the connection.
        """
        with self._translated_errors(timeout_s):
            response = await self._post(body, timeout_s, headers)
            try:
                if "event-stream" not in response.headers.get("content-type", ""):
                    yield await response.aread()
                    return
                async for event in anthropic.AsyncStream.raw_events(response):
                    if event.data:
                        yield _read_event(event.data)
            finally:
                await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _post(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str]
    ) -> httpx2.Response:
        """Return the response before its body has arrived."""
        return await self._client.post(
            PATH,
            cast_to=httpx2.Response,
            content=body,
            options={
                "headers": {**headers, "Content-Type": "application/json", **_UNREAD},
                "timeout": timeout_s,
            },
        )

    @contextmanager
    def _translated_errors(self, timeout_s: float) -> Iterator[None]:
        """Raise errors of the SDK and of the transport as errors of the port."""
        try:
            yield
        except (anthropic.AnthropicError, httpx2.TransportError) as error:
            reason = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
            if isinstance(reason, _ErrorResponse):
                response, now = reason.response, datetime.now(UTC)
                raise error_from_response(
                    response.status_code, response.content, response.headers, now, self._api_key
                ) from error
            raise connection_failure(reason or error, timeout_s, self._api_key) from error


def _read_event(data: str) -> JsonObject:
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ModelFailed(
            _("the provider sent an event that is not JSON"), cause="format"
        ) from error
    return event if isinstance(event, dict) else {}
