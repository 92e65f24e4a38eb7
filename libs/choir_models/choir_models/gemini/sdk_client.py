"""Minimal client based on the google-genai SDK: posts a request and returns the response as text.

Uses the SDK's inner `BaseApiClient` (keys, addresses, versions, streams, errors), because
`models.generate_content` checks the whole history with pydantic at each call (100 ms for 400 messages) and
encodes thought signatures again.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime

import httpx2
import orjson

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_models.http_transport import connection_failure, create_http_client
from choir_models.model import ModelFailed
from choir_models.provider_errors import error_from_body, error_from_response, shorten
from choir_models.sdk_import import hidden_http_clients

VERSIONS = ("v1", "v1beta", "v1alpha")


with hidden_http_clients():
    from google import genai
    from google.genai import errors, types


class GeminiClient:
    """Client for one endpoint with one key."""

    def __init__(
        self, endpoint: str, api_key: str | None, key_proxy: KeyProxy | None = None
    ) -> None:
        base, _, last = endpoint.rstrip("/").rpartition("/")
        is_versioned = last in VERSIONS
        self._api_key = api_key
        self._http = create_http_client(endpoint, api_key, key_proxy)
        client = genai.Client(
            # The SDK requires a key, even for an endpoint without one.
            api_key=api_key or "none",
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=base if is_versioned else endpoint,
                api_version=last if is_versioned else None,
                httpx_async_client=self._http,
            ),
        )
        self._api = client._api_client

    async def complete(
        self, model: str, body: JsonObject, timeout_s: float, headers: Mapping[str, str]
    ) -> str:
        """Post a request and return the response's body.

        Raises RateLimited, ContextOverflow or another ModelFailed.
        """
        with self._errors(timeout_s):
            response = await self._api.async_request(
                "post", f"{_path(model)}:generateContent", {**body}, _options(timeout_s, headers)
            )
        return response.body or ""

    async def stream(
        self, model: str, body: JsonObject, timeout_s: float, headers: Mapping[str, str]
    ) -> AsyncGenerator[str]:
        """Post a request and yield the chunks of the response; raises the errors of `complete`."""
        path = f"{_path(model)}:streamGenerateContent?alt=sse"
        with self._errors(timeout_s):
            chunks = await self._api.async_request_streamed(
                "post", path, {**body}, _options(timeout_s, headers)
            )
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk.body or ""

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @contextmanager
    def _errors(self, timeout_s: float) -> Iterator[None]:
        """Raise the errors of the SDK and of its HTTP client as errors of `ChatModel`."""
        try:
            yield
        except errors.APIError as error:
            raise self._provider_error(error) from error
        except httpx2.HTTPError as error:
            raise connection_failure(error, timeout_s, self._api_key) from error
        except ValueError as error:
            message = shorten(
                _("the provider's answer is not Gemini's: {error}").format(error=error),
                self._api_key,
            )
            raise ModelFailed(message, cause="format") from error

    def _provider_error(self, error: errors.APIError) -> ChoirError:
        now = datetime.now(UTC)
        response = error.response
        if isinstance(response, httpx2.Response):
            return error_from_response(
                response.status_code, response.content, response.headers, now, self._api_key
            )
        # in the middle of a stream
        details = orjson.loads(orjson.dumps(error.details))
        return error_from_body(details.get("error") if isinstance(details, dict) else details, now)


def _path(model: str) -> str:
    return model if "/" in model else f"models/{model}"


def _options(timeout_s: float, headers: Mapping[str, str]) -> types.HttpOptions:
    return types.HttpOptions(timeout=round(timeout_s * 1000), headers={**headers})
