"""Classification of providers' errors, with messages that users can read. Pure.

Covers error statuses, and an error in a response with status 200, as OpenRouter reports upstream failures.
"""

import email.utils
import re
from collections.abc import Mapping
from datetime import datetime

import orjson
from pydantic import JsonValue

from choir_common.errors import ChoirError, RateLimited
from choir_common.i18n import _
from choir_common.redactor import redact_secrets
from choir_models.model import (
    ContextOverflow,
    FailureCause,
    ModelFailed,
    ModelRequestRejected,
    NoModelResponse,
)

MAX_DETAIL = 300

BAD_REQUEST, UNAUTHORIZED, NO_CREDIT, FORBIDDEN, NOT_FOUND = 400, 401, 402, 403, 404
METHOD_NOT_ALLOWED, GONE, TOO_LARGE, UNPROCESSABLE, TOO_MANY = 405, 410, 413, 422, 429
REQUEST_TIMEOUT, CONFLICT, SERVER_ERROR = 408, 409, 500
MULTIPLE_CHOICES = 300

# Error texts of OpenAI, Azure, OpenRouter, Anthropic, Gemini, vLLM, llama.cpp, Mistral, Together.
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|maximum context length"
    r"|context (length|window|size)|prompt is too long|input is too long|too many (input )?tokens"
    r"|context limit|(input )?token count.{0,40}exceeds|reduce the length|request too large for",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content_filter|content_policy|content management policy|content policy|responsible ?ai"
    r"|input was flagged|requires moderation|safety system|data_inspection_failed",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|insufficient credits|billing|spend_limit",
    re.IGNORECASE,
)
# Google's ErrorInfo, RetryInfo and QuotaFailure.
_BAD_KEY = re.compile(r"api_key_invalid|invalid api key|api key (not valid|expired)", re.IGNORECASE)
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"([\d.]+)s"')
_DAILY_QUOTA = re.compile(r'"quotaId":\s*"[^"]*PerDay')
_NO_MODEL = re.compile(
    r"model not exist|model_not_found|not a valid model|model .{1,100} (does not exist|not found)",
    re.IGNORECASE,
)
# Anthropic reports these with status 400.
_NO_CREDIT = re.compile(
    r"credit balance is too low|reached your specified api usage limits", re.IGNORECASE
)
_TYPES = {
    "invalid_request_error": BAD_REQUEST,
    "authentication_error": UNAUTHORIZED,
    "billing_error": NO_CREDIT,
    "permission_error": FORBIDDEN,
    "not_found_error": NOT_FOUND,
    "request_too_large": TOO_LARGE,
    "rate_limit_error": TOO_MANY,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Statuses of Anthropic's error types; an error in a stream has a type only."""

_CAUSES: dict[int, FailureCause] = {
    FORBIDDEN: "key",
    NOT_FOUND: "not_found",
    # Providers answer 410 for models that they have withdrawn.
    GONE: "not_found",
    METHOD_NOT_ALLOWED: "endpoint",
}


def error_from_response(
    status: int, body: bytes, headers: Mapping[str, str], now: datetime, api_key: str | None = None
) -> ChoirError:
    """Return the error for an HTTP response with an error status."""
    if status == UNAUTHORIZED and not api_key:
        return ModelFailed(_("the provider wants an API key (401), and none was sent"), cause="key")
    return _classify(status, _whole_text(body), _error_message(body), headers, now, api_key)


def error_from_body(error: JsonValue, now: datetime) -> ChoirError:
    """Return the error in the body of a response with status 200."""
    body = orjson.dumps({"error": error})
    fields = error if isinstance(error, dict) else {}
    code = fields.get("code")
    status = _TYPES.get(str(fields.get("type")), 0)
    if isinstance(code, int) and not isinstance(code, bool):
        status = code
    return _classify(
        status, _whole_text(body), _error_message(body), _retry_headers(error), now, None
    )


def _classify(
    status: int,
    body: str,
    text: str,
    headers: Mapping[str, str],
    now: datetime,
    api_key: str | None,
) -> ChoirError:
    status_text = f"the provider answered {status}" if status else "the provider reports an error"
    detail = shorten(f"{status_text}: {text}" if text else status_text, api_key)
    if (status in (BAD_REQUEST, TOO_LARGE, 0) and _OVERFLOW.search(body)) or status == TOO_LARGE:
        return ContextOverflow(
            _("the conversation exceeds the model's context window ({detail})").format(
                detail=detail
            ),
            cause="too_long",
        )
    if status in (BAD_REQUEST, FORBIDDEN, 0) and _FILTER.search(body):
        return ModelFailed(
            _("the provider's content filter refused the request ({detail})").format(detail=detail),
            cause="filter",
        )
    if status == UNAUTHORIZED or (status == BAD_REQUEST and _BAD_KEY.search(body)):
        # The provider's text may quote the key or a part of it.
        return ModelFailed(
            _("the provider refused the API key ({status})").format(status=status), cause="key"
        )
    if status == TOO_MANY and _DAILY_QUOTA.search(body):
        return ModelFailed(
            _("the provider's quota for today is used up ({detail})").format(detail=detail),
            cause="rate",
        )
    return _classify_limit(status, body, text, headers, now, detail)


def _classify_limit(
    status: int, body: str, text: str, headers: Mapping[str, str], now: datetime, detail: str
) -> ChoirError:
    """Return the error of a status that may pass: no credit, too many requests, or a failed server."""
    delay = _RETRY_DELAY.search(body)
    wait_s = _number(delay[1]) if delay else retry_after_s(headers, now)
    if (
        status == NO_CREDIT
        # Google's text about a rate names the billing, too, but has a delay.
        or (status == TOO_MANY and not delay and _QUOTA.search(body))
        or (status == BAD_REQUEST and _NO_CREDIT.search(text))
    ):
        return ModelFailed(
            _("the provider account has no credit left ({detail})").format(detail=detail),
            cause="credit",
        )
    if status == TOO_MANY:
        return RateLimited(_("the provider limits the rate of requests"), retry_after_s=wait_s)
    if status == BAD_REQUEST and _NO_MODEL.search(body):
        return ModelFailed(detail, cause="not_found")
    if status in (BAD_REQUEST, UNPROCESSABLE):
        return ModelRequestRejected(detail, cause="request")
    if is_passing(status):
        return NoModelResponse(detail, retry_after_s=wait_s)
    return ModelFailed(detail, cause=_final_cause(status))


def _final_cause(status: int) -> FailureCause:
    """Return the cause for a status that has no meaning of its own; 0 is an error without a status."""
    if status in _CAUSES:
        return _CAUSES[status]
    # Redirects are not followed: they would take the key to another address.
    if MULTIPLE_CHOICES <= status < BAD_REQUEST:
        return "endpoint"
    return "refused" if BAD_REQUEST < status < SERVER_ERROR else "provider"


def is_passing(status: int) -> bool:
    """Return whether the same request may succeed later: 408, 409 and all errors of servers."""
    return status in (REQUEST_TIMEOUT, CONFLICT) or status >= SERVER_ERROR


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that a provider asks to wait, or None.

    Accepts milliseconds (`retry-after-ms`), seconds and a date (`retry-after`).
    """
    lower = {name.lower(): value for name, value in headers.items()}
    exact = _number(lower.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    value = lower.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        at = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    # By RFC 9110 a date without a zone is UTC.
    at = at if at.tzinfo else at.replace(tzinfo=now.tzinfo)
    return max(0.0, (at - now).total_seconds())


def shorten(text: str, api_key: str | None = None) -> str:
    """Return the text cut to message length; the key is masked before the cut, which could split it."""
    text = " ".join(redact_secrets(text, api_key).split())
    return text if len(text) <= MAX_DETAIL else text[: MAX_DETAIL - 1] + "…"


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _whole_text(body: bytes) -> str:
    return body[:20_000].decode("utf-8", "replace")


def _error_message(body: bytes) -> str:
    """Return the message of an error body, with the upstream error that OpenRouter adds."""
    try:
        parsed: JsonValue = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "" if body.lstrip()[:1] == b"<" else _whole_text(body)
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]  # Gemini wraps its errors in a list
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return str(error)
    message = error.get("message") or error.get("detail") or error.get("code") or ""
    metadata = error.get("metadata")
    behind: list[str] = []
    if isinstance(metadata, dict):
        behind = [str(metadata[key]) for key in ("provider_name", "raw") if metadata.get(key)]
    return " | ".join([str(message), *behind])


def _retry_headers(error: JsonValue) -> dict[str, str]:
    metadata = error.get("metadata") if isinstance(error, dict) else None
    headers = metadata.get("headers") if isinstance(metadata, dict) else None
    return {k: str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}
