"""Signatures of hook requests: who sent it, and is it new?

Each scheme computes a digest of the whole body, and compares in constant time. Nothing is checked before
that: the time of a refusal does not tell what was wrong.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from choir_common.errors import Unauthorized
from choir_common.i18n import _
from choir_common.webhook_signature import ID, MAX_DIGITS, MAX_ID_CHARS, TOLERANCE, WebhookSigner
from choir_common.wire.trigger_config import HookConfig

GITHUB_SIGNATURE, GITHUB_ID = "x-hub-signature-256", "x-github-delivery"
IDEMPOTENCY_KEY = "idempotency-key"
DEFAULT_HEADERS = {"hmac-sha256": "x-signature-256", "token": "authorization"}
HEX_PREFIX, BEARER = "sha256=", "bearer "
DIGEST_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True)
class HookRequest:
    """A request as it arrived."""

    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    at: datetime


@dataclass(frozen=True, slots=True)
class RequestFingerprint:
    """What makes a request equal to an earlier one."""

    key: str
    """The sender's id, or a digest of the body."""
    has_id: bool
    """Whether the key is the sender's id."""
    content_key: str | None = None
    """A digest of what is signed if the id is not: an attacker can repeat the rest under another id."""


def check_request(hook: HookConfig, secret: str, request: HookRequest) -> RequestFingerprint:
    """Return the identity of a request. Raises Unauthorized if it is not signed as the hook requires."""
    headers, body = request.headers, request.body
    digest = _digest(body)
    match hook.signature:
        case "standard-webhooks":
            try:
                signer = WebhookSigner(secret)
            except ValueError as error:
                raise Unauthorized(
                    _("The secret {secret!r} is invalid. {error}").format(
                        secret=hook.secret, error=error
                    )
                ) from None
            return RequestFingerprint(signer.verify(headers, body, request.at), has_id=True)
        case "github":
            signature = headers.get(GITHUB_SIGNATURE, "")
            _compare(signature, HEX_PREFIX + _hmac(secret, body).hex(), GITHUB_SIGNATURE)
            return _identity(_read_id(headers, GITHUB_ID), digest, content_key=digest)
        case "hmac-sha256":
            content = _check_hmac(hook, secret, request)
            # With a time in it, only a repetition is equal. Without one, equal bodies may be different news.
            content_key = None if hook.timestamp_header is None else _digest(content)
            return _identity(_read_any_id(headers), digest, content_key=content_key)
        case "token":
            _hmac(secret, body)  # as long as the other schemes take
            header = _header(hook)
            token = headers.get(header, "")
            if token[: len(BEARER)].lower() == BEARER:
                token = token[len(BEARER) :]
            _compare(token, secret, header)
            return _identity(_read_any_id(headers), digest)
        case _:
            assert_never(hook.signature)


def _identity(own_id: str, digest: str, *, content_key: str | None = None) -> RequestFingerprint:
    return RequestFingerprint(own_id or digest, has_id=bool(own_id), content_key=content_key)


def _check_hmac(hook: HookConfig, secret: str, request: HookRequest) -> bytes:
    """Check the signature and the time; return what is signed."""
    header, timestamp = _header(hook), ""
    content = request.body
    if hook.timestamp_header is not None:
        timestamp = request.headers.get(hook.timestamp_header.lower(), "")
        content = timestamp.encode() + b"." + content
    expected = _hmac(secret, content)
    signature = request.headers.get(header, "").removeprefix(HEX_PREFIX)
    if not _is_equal(signature.lower(), expected.hex()):
        _compare(signature, base64.b64encode(expected).decode(), header)
    if hook.timestamp_header is None:
        return content
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MAX_DIGITS):
        raise Unauthorized(
            _("The header {timestamp_header} must be in seconds since 1970.").format(
                timestamp_header=hook.timestamp_header
            )
        )
    difference_s = abs(int(timestamp) - request.at.timestamp())
    if difference_s > TOLERANCE.total_seconds():
        raise Unauthorized(
            _("The header {timestamp_header} differs by {difference_s:.0f} s.").format(
                timestamp_header=hook.timestamp_header, difference_s=difference_s
            )
        )
    return content


def _header(hook: HookConfig) -> str:
    return (hook.header or DEFAULT_HEADERS[hook.signature]).lower()


def _hmac(secret: str, content: bytes) -> bytes:
    return hmac.digest(secret.encode(), content, hashlib.sha256)


def _compare(signature: str, expected: str, header: str) -> None:
    if not _is_equal(signature, expected):
        raise Unauthorized(
            _("The header {header} does not match the request.").format(header=header)
        )


def _is_equal(signature: str, expected: str) -> bool:
    return hmac.compare_digest(signature.encode(), expected.encode())


def _digest(content: bytes) -> str:
    return DIGEST_PREFIX + hashlib.sha256(content).hexdigest()


def _read_any_id(headers: Mapping[str, str]) -> str:
    return _read_id(headers, IDEMPOTENCY_KEY) or _read_id(headers, ID)


def _read_id(headers: Mapping[str, str], header: str) -> str:
    """Return the sender's id, or an empty text if there is none that can be stored."""
    value = headers.get(header, "")
    return value if 0 < len(value) <= MAX_ID_CHARS and value.isprintable() else ""
