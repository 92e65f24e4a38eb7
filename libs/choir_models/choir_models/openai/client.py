"""HTTP client of OpenAI's APIs: posts bytes and returns the response body, streamed or whole.

Without the openai SDK, which would take 4.5 MB in each agent and 0.4 ms for each call. Its types are not
needed: `codec` renders and reads the JSON.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Protocol

import httpx2

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.errors import ChoirError
from choir_common.http.response_parser import parse_events
from choir_common.i18n import _
from choir_models.http_transport import connection_failure, create_http_client
from choir_models.model import NO_LISTENER, ModelFailed, NoModelResponse, OutputListener
from choir_models.openai.stream import StreamedCompletion
from choir_models.provider_errors import error_from_response, shorten

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
EVENT_STREAM = "text/event-stream"
_JSON = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "choir"}


class StreamedBody(Protocol):
    """Assembler of a stream into the body of a whole response."""

    @property
    def is_complete(self) -> bool:
        """Whether the end of the stream has arrived."""

    @property
    def hidden_characters(self) -> int:
        """The length of the output so far that is no text."""

    def add(self, data: str) -> str:
        """Add an event's data and return its text for the user; raises ValueError if it is malformed."""

    def body(self) -> bytes:
        """Return the body of the whole response."""


class OpenAiClient:
    """Client for one endpoint with one key."""

    path = "/chat/completions"

    def __init__(
        self, endpoint: str, api_key: str | None, key_proxy: KeyProxy | None = None
    ) -> None:
        self._api_key = api_key
        self._url = httpx2.URL(endpoint.rstrip("/") + self.path)
        # Some servers refuse a request without a key, although they need none.
        self._headers = {**_JSON, "Authorization": f"Bearer {api_key or 'none'}"}
        self._client = create_http_client(endpoint, api_key, key_proxy)

    async def complete(
        self,
        body: bytes,
        timeout_s: float,
        headers: Mapping[str, str] = NO_HEADERS,
        listener: OutputListener = NO_LISTENER,
    ) -> bytes:
        """Post a request and return the response's body.

        A streamed response is passed to the listener while it arrives, and returned as the body of a whole
        one. A cancelled call closes its connection at once. Raises RateLimited, ContextOverflow or another
        ModelFailed.
        """
        try:
            response = await self._client.send(
                self._request(body, timeout_s, headers), auth=None, stream=True
            )
            try:
                if not response.is_success:
                    raise await self._refusal(response)
                if response.headers.get("content-type", "").startswith(EVENT_STREAM):
                    return await _read_stream(response, self.start_stream(), listener)
                return await response.aread()
            finally:
                await response.aclose()
        # UnicodeError: a key that cannot be sent in a header.
        except (httpx2.TransportError, UnicodeError) as error:
            raise connection_failure(error, timeout_s, self._api_key) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _request(self, body: bytes, timeout_s: float, headers: Mapping[str, str]) -> httpx2.Request:
        # Letting the client merge URL and headers would cost as much as sending the request.
        return httpx2.Request(
            "POST",
            self._url,
            headers={**self._headers, **headers, "Content-Type": "application/json"},
            content=body,
            extensions={"timeout": httpx2.Timeout(timeout_s).as_dict()},
        )

    async def _refusal(self, response: httpx2.Response) -> ChoirError:
        content, now = await response.aread(), datetime.now(UTC)
        return error_from_response(
            response.status_code, content, response.headers, now, self._api_key
        )

    def start_stream(self) -> StreamedBody:
        """Return the assembler of a stream."""
        return StreamedCompletion()


async def _read_stream(
    response: httpx2.Response, streamed: StreamedBody, listener: OutputListener
) -> bytes:
    """Return a stream as the body of a whole response; raises NoModelResponse if it was cut."""
    hidden = 0
    try:
        async for event in parse_events(response.aiter_bytes()):
            text = streamed.add(event.data)
            if text:
                listener.add_text(text)
            if streamed.hidden_characters > hidden:
                listener.add_hidden(streamed.hidden_characters - hidden)
                hidden = streamed.hidden_characters
    except ValueError as error:
        message = _("the provider's stream is not in the format of its API ({error})").format(
            error=error
        )
        raise ModelFailed(shorten(message), cause="format") from error
    if not streamed.is_complete:
        message = _("the provider closed the connection in the middle of its answer")
        raise NoModelResponse(message, cause="connection")
    return streamed.body()
