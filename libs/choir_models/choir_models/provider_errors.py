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
TOO_LARGE, UNPROCESSABLE, TOO_MANY = 413, 422, 429
NO_ANSWER = (502, 503, 529)
"""Statuses that mean no model processed the request: bad gateway, unavailable, overloaded."""

# Error texts of OpenAI, Azure, OpenRouter, Anthropic, Gemini, vLLM, llama.cpp, Mistral, Together.
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|maximum context length"
    r"|context (length|window|size)|prompt is too long|input is too long|too many (input )?tokens"
    r"|(input )?token count.{0,40}exceeds|reduce the length|request too large for",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content_filter|content_policy|content management policy|content policy|responsible ?ai"
    r"|input was flagged|requires moderation|safety system|data_inspection_failed",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|insufficient credits|billing", re.IGNORECASE
)


_CAUSES: dict[int, FailureCause] = {FORBIDDEN: "key", NOT_FOUND: "not_found"}


def error_from_response(
    status: int, body: bytes, headers: Mapping[str, str], now: datetime, api_key: str | None = None
) -> ChoirError:
    """Return the error for an HTTP response with an error status."""
    if status == UNAUTHORIZED and not api_key:
        return ModelFailed("the provider wants an API key (401), and none was sent", cause="key")
    return _classify(status, _whole_text(body), _error_message(body), headers, now, api_key)


def error_from_body(error: JsonValue, now: datetime) -> ChoirError:
    """Return the error in the body of a response with status 200."""
    body = orjson.dumps({"error": error})
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and not isinstance(code, bool) else 0
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
            f"the conversation exceeds the model's context window ({detail})", cause="too_long"
        )
    if status in (BAD_REQUEST, FORBIDDEN, 0) and _FILTER.search(body):
        return ModelFailed(
            f"the provider's content filter refused the request ({detail})", cause="filter"
        )
    if status == UNAUTHORIZED:
        # The provider's text may quote the key or a part of it.
        return ModelFailed("the provider refused the API key (401)", cause="key")
    if status == NO_CREDIT or (status == TOO_MANY and _QUOTA.search(body)):
        return ModelFailed(f"the provider account has no credit left ({detail})", cause="credit")
    if status == TOO_MANY:
        wait_s = retry_after_s(headers, now)
        return RateLimited("the provider limits the rate of requests", retry_after_s=wait_s)
    if status in (BAD_REQUEST, UNPROCESSABLE):
        return ModelRequestRejected(detail, cause="request")
    if status in NO_ANSWER:
        return NoModelResponse(detail, retry_after_s=retry_after_s(headers, now))
    return ModelFailed(detail, cause=_CAUSES.get(status, "provider"))


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
