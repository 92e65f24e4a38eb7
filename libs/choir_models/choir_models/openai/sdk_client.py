"""Minimal client based on the openai SDK: posts bytes and returns the response body, streamed or whole.

Imported at the first model call, because the import takes time and memory (see `sdk_import`). Uses `post`
instead of `chat.completions.create`, which costs 0.25 ms per message.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Protocol

import httpx2
import openai

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.http.response_parser import parse_events
from choir_models.http_transport import connection_failure, create_http_client
from choir_models.model import NO_LISTENER, ModelFailed, NoModelResponse, OutputListener
from choir_models.openai.stream import StreamedCompletion
from choir_models.provider_errors import error_from_response, shorten

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
EVENT_STREAM = "text/event-stream"
# Makes the SDK return the response before its body has arrived.
_UNREAD = {"X-Stainless-Raw-Response": "stream"}


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
        self._client = openai.AsyncOpenAI(
            base_url=endpoint,
            # The SDK requires a key, even for an endpoint without one.
            api_key=api_key or "none",
            # The caller retries.
            max_retries=0,
            http_client=create_http_client(endpoint, api_key, key_proxy),
        )

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
            raw = await self._client.post(
                self.path,
                cast_to=httpx2.Response,
                content=body,
                options={
                    "headers": {**headers, "Content-Type": "application/json", **_UNREAD},
                    "timeout": timeout_s,
                },
            )
            response: httpx2.Response = getattr(raw, "http_response", raw)
            try:
                if response.headers.get("content-type", "").startswith(EVENT_STREAM):
                    return await _read_stream(response, self.start_stream(), listener)
                return await response.aread()
            finally:
                await response.aclose()
        except openai.APIStatusError as error:
            answer = error.response
            now = datetime.now(UTC)
            raise error_from_response(
                answer.status_code, answer.content, answer.headers, now, self._api_key
            ) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise connection_failure(cause, timeout_s, self._api_key) from error
        except httpx2.TransportError as error:
            raise connection_failure(error, timeout_s, self._api_key) from error
        except openai.OpenAIError as error:
            raise ModelFailed(shorten(f"the model call failed: {error}", self._api_key)) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

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
        message = f"the provider's stream is not in the format of its API ({error})"
        raise ModelFailed(shorten(message), cause="format") from error
    if not streamed.is_complete:
        message = "the provider closed the connection in the middle of its answer"
        raise NoModelResponse(message, cause="connection")
    return streamed.body()
