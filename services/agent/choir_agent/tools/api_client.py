"""HTTP client for tools: a deadline, a size limit, and one retry after a rate limit.

Error texts of a service are truncated, and the key is redacted from them.
"""

import asyncio
import email.utils
import math
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import orjson

from choir_agent.tools.tool import ToolFailed
from choir_common.egress.key_placeholders import KeyProxy, is_placeholder
from choir_common.http.key_proxy_transport import KeyProxyTransport
from choir_common.redactor import redact_secrets
from choir_common.wire.model import JsonObject

CONNECT_S = 10.0
MAX_BODY_BYTES = 8_000_000
MAX_DETAIL_CHARS = 300
# Longest wait after a 429; for a longer one the model gets the error and decides.
MAX_RETRY_WAIT_S = 20.0
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class ApiService:
    """A service to call, and its secret key."""

    name: str
    """Name of the service, for error messages."""
    endpoint: str
    secret_name: str
    """Empty for a service without a key."""
    secret: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class UploadForm:
    """A multipart form with one file in the field `file`."""

    fields: Mapping[str, str]
    file_name: str
    content: bytes = field(repr=False)
    mime: str


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request; `effect` is true if it changes something at the service."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: JsonObject | None = None
    effect: bool = False
    form: UploadForm | None = None
    """Sent instead of `body`."""


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A complete response."""

    status: int
    headers: httpx2.Headers
    body: bytes

    def json(self, service: ApiService) -> JsonObject:
        """Return the body's JSON object; raises ToolFailed if it is not one."""
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise ToolFailed(
                "bad_answer", f"{service.name} returned a body that is not a JSON object."
            )
        return value


class ApiClient:
    """Calls services; one client for all tools of an agent."""

    def __init__(self, key_proxy: KeyProxy | None = None) -> None:
        """Set the proxy that adds keys; None if there are no placeholders."""
        self._key_proxy = key_proxy
        self._tls: ssl.SSLContext | None = None

    async def call(self, service: ApiService, call: ApiRequest, timeout_s: float) -> ApiResponse:
        """Send a request and return its response, whatever its status; retry once after a 429.

        The retry happens only if the service names a wait that is short enough. Raises ToolFailed
        if there is no response.
        """
        deadline = time.monotonic() + timeout_s
        answer = await self._once(service, call, deadline)
        if answer.status != TOO_MANY_REQUESTS:
            return answer
        wait_s = retry_delay_s(answer.headers, deadline - time.monotonic())
        if wait_s is None:
            return answer
        # A 429 had no effect at the service, so any request may be repeated.
        await asyncio.sleep(wait_s)
        return await self._once(service, call, deadline)

    @asynccontextmanager
    async def stream(
        self, service: ApiService, call: ApiRequest, timeout_s: float
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request and yield its unread response; `timeout_s` covers the whole block.

        Raises ToolFailed if there is no response or the connection breaks.
        """
        proxied = self._proxied_transport(service)
        if proxied is None and service.endpoint.startswith("https:") and self._tls is None:
            # Loading the certificates takes a moment.
            self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
        limits = httpx2.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        form = call.form
        try:
            async with (
                asyncio.timeout(timeout_s),
                httpx2.AsyncClient(
                    verify=self._tls or False, transport=proxied, timeout=limits
                ) as client,
                client.stream(
                    call.method,
                    service.endpoint.rstrip("/") + call.path,
                    params={**call.query},
                    # No compression: the body is read raw, and the size limit applies to those
                    # bytes.
                    headers={**service.headers, "Accept-Encoding": "identity"},
                    json=call.body,
                    data={**form.fields} if form else None,
                    files={"file": (form.file_name, form.content, form.mime)} if form else None,
                ) as response,
            ):
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
            reason = f"{service.name} cannot be reached at {service.endpoint}: {error}"
            raise ToolFailed("unreachable", redacted_excerpt(reason, service)) from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise _lost(service, call, f"did not answer within {timeout_s:.0f} s") from error
        except httpx2.TransportError as error:
            raise _lost(service, call, f"closed the connection ({error})") from error

    def _proxied_transport(self, service: ApiService) -> httpx2.AsyncBaseTransport | None:
        if self._key_proxy is None or not is_placeholder(service.secret):
            return None
        return KeyProxyTransport(self._key_proxy)

    async def _once(self, service: ApiService, call: ApiRequest, deadline: float) -> ApiResponse:
        async with self.stream(service, call, max(1.0, deadline - time.monotonic())) as response:
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise ToolFailed("bad_answer", f"The response of {service.name} is too large.")
            text = bytes(body).decode("utf-8", "surrogateescape")
            # A service may echo the key in an error.
            clean = redact_secrets(text, service.secret).encode("utf-8", "surrogateescape")
            return ApiResponse(response.status_code, response.headers, clean)


def retry_delay_s(headers: httpx2.Headers, left_s: float) -> float | None:
    """Return how many seconds to wait before the retry, or None if unknown or too long."""
    wait_s = retry_after(headers)
    return wait_s if wait_s is not None and wait_s <= min(MAX_RETRY_WAIT_S, left_s - 1.0) else None


def retry_after(headers: httpx2.Headers) -> float | None:
    """Return how many seconds the service asks to wait, or None if it does not say."""
    text = headers.get("retry-after", "").strip()
    if text:
        try:
            seconds = float(text)
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
            except ValueError:
                return None
        return max(0.0, seconds) if math.isfinite(seconds) else None
    return _until_reset(headers)


def _until_reset(headers: httpx2.Headers) -> float | None:
    """Return the seconds until the exhausted rate-limit window resets (X-RateLimit-*, Brave)."""
    resets = _numbers(headers.get("x-ratelimit-reset", ""))
    remaining = _numbers(headers.get("x-ratelimit-remaining", ""))
    used_up = [reset for reset, rest in zip(resets, remaining, strict=False) if rest <= 0]
    if used_up:
        return max(used_up)
    return min(resets, default=None)


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        return []
    return numbers if all(math.isfinite(n) and n >= 0 for n in numbers) else []


def redacted_excerpt(text: str, service: ApiService) -> str:
    """Return a service's text, truncated and with the key redacted."""
    return redact_secrets(text, service.secret)[:MAX_DETAIL_CHARS]


def error_of_response(service: ApiService, answer: ApiResponse, text: str) -> ToolFailed:
    """Return the error for an unsuccessful response, judged by its status alone."""
    text = redacted_excerpt(text, service)
    detail = f" Its message: {text}" if text else ""
    match answer.status:
        case 401 | 403 if not service.secret_name:
            return ToolFailed(
                "unauthorized",
                f"{service.name} wants a key, and config.json names no secret for it.{detail}",
            )
        case 401 | 403:
            return ToolFailed(
                "unauthorized",
                f"{service.name} refused the key (secret `{service.secret_name}`); the user must "
                f"check or renew it.{detail}",
            )
        case 404:
            return ToolFailed("not_found", f"{service.name} did not find it.{detail}")
        case 429:
            wait_s = retry_after(answer.headers)
            message = f"The rate limit of {service.name} is exhausted; try again later.{detail}"
            return ToolFailed(
                "rate_limited", message, {} if wait_s is None else {"retry_after_s": wait_s}
            )
        case status if status >= 500:
            return ToolFailed("service_error", f"{service.name} failed ({status}).{detail}")
    return ToolFailed("refused", f"{service.name} rejected the request ({answer.status}).{detail}")


def _lost(service: ApiService, call: ApiRequest, what: str) -> ToolFailed:
    if call.effect:
        return ToolFailed(
            "outcome_unknown",
            f"{service.name} {what}: the request may have taken effect. Check before you repeat it.",
        )
    return ToolFailed("timeout", f"{service.name} {what}.")
