"""Signatures of hook requests: what is compared, and that all schemes do the same work."""

import hmac
from datetime import UTC, datetime
from typing import Any

import pytest

from choir_common.errors import Unauthorized
from choir_common.webhook_signature import WebhookSigner
from choir_common.wire.trigger_config import HookConfig
from choir_control.conversations.triggers import signatures
from choir_control.conversations.triggers.signatures import HookRequest, check_request

NOW = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)
BODY = b'{"status": "ok"}'
SCHEMES: tuple[dict[str, Any], ...] = (
    {"signature": "standard-webhooks"},
    {"signature": "github"},
    {"signature": "hmac-sha256"},
    {"signature": "hmac-sha256", "timestamp_header": "X-Time"},
    {"signature": "token"},
)


def make_hook(**changes: Any) -> HookConfig:
    return HookConfig(agent="main", secret="key", **changes)


@pytest.mark.parametrize("fields", SCHEMES)
@pytest.mark.parametrize("headers", [{}, {"webhook-id": "1", "authorization": "x", "x-time": "1"}])
def test_each_refusal_has_computed_one_digest_of_the_whole_body(
    fields: dict[str, Any], headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def digest(key: bytes, content: bytes, name: Any) -> bytes:
        sizes.append(len(content))
        return bytes(32)

    monkeypatch.setattr(hmac, "digest", digest)
    with pytest.raises(Unauthorized):
        check_request(make_hook(**fields), "secret", HookRequest(headers, BODY, NOW))
    assert len(sizes) == 1 and sizes[0] >= len(BODY)


def test_a_standard_request_has_the_senders_id_and_an_invalid_secret_refuses_it() -> None:
    headers = WebhookSigner("secret").sign("msg_1", BODY, NOW)
    identity = check_request(make_hook(), "secret", HookRequest(headers, BODY, NOW))
    assert (identity.key, identity.has_id, identity.content_key) == ("msg_1", True, None)
    with pytest.raises(Unauthorized, match="base64"):
        check_request(make_hook(), "whsec_!", HookRequest(headers, BODY, NOW))


def test_ids_that_cannot_be_stored_count_as_none() -> None:
    hook = make_hook(signature="token")
    for bad in ("", "x" * 201, "a\nb", "\x00"):
        headers = {"authorization": "bearer secret", "idempotency-key": bad}
        identity = check_request(hook, "secret", HookRequest(headers, BODY, NOW))
        assert not identity.has_id and identity.key.startswith(signatures.DIGEST_PREFIX)


@pytest.mark.parametrize("timestamp", ["", "x", "-1", "1.5", "9" * 40, "²"])
def test_a_timestamp_that_is_no_number_of_seconds_is_refused(timestamp: str) -> None:
    hook = make_hook(signature="hmac-sha256", timestamp_header="X-Time")
    signed = hmac.digest(b"secret", timestamp.encode() + b"." + BODY, "sha256").hex()
    headers = {"x-signature-256": f"sha256={signed}", "x-time": timestamp}
    with pytest.raises(Unauthorized):
        check_request(hook, "secret", HookRequest(headers, BODY, NOW))
