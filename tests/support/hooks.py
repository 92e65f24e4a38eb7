"""Hooks for tests: their configuration, and requests that are signed as each scheme requires."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import httpx2

from choir_common.http.client import make_client
from choir_common.ids import new_id
from choir_common.webhook_signature import WebhookSigner
from tests.service.control.world import World

SECRET = "secret-of-the-hooks-in-the-tests"
TOKEN = "token-of-a-hook-in-the-tests"
SECRETS = {"hook-key": SECRET, "hook-token": TOKEN}
TEMPLATE = "Deploy of {{ app.name }}: {{ status }}"
BODY = {"app": {"name": "shop"}, "status": "ok"}


def hooks_config() -> dict[str, Any]:
    """Return a hook of each scheme."""
    common = {"agent": "main", "secret": "hook-key", "template": TEMPLATE}
    return {
        "deploys": common,
        "github": {**common, "signature": "github"},
        "plain": {**common, "signature": "hmac-sha256"},
        "timed": {
            **common,
            "signature": "hmac-sha256",
            "header": "X-Signature",
            "timestamp_header": "X-Timestamp",
        },
        "token": {**common, "signature": "token", "secret": "hook-token"},
        "work": {**common, "kind": "job"},
        "small": {**common, "max_kb": 1, "per_minute": 2},
        "asleep": {**common, "agent": "other"},
        "whole": {"agent": "main", "secret": "hook-key"},
        "unset": {**common, "secret": "not-set"},
    }


def add_hooks(world: World, **changes: dict[str, Any]) -> None:
    """Add the hooks to the configuration of a choird that is not started."""
    file = world.settings.config_file
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "hooks": {**hooks_config(), **changes}}))
    world.secrets.secrets.update(SECRETS)


def hmac_hex(content: bytes, secret: str = SECRET) -> str:
    return hmac.digest(secret.encode(), content, hashlib.sha256).hex()


def hmac_base64(content: bytes, secret: str = SECRET) -> str:
    return base64.b64encode(hmac.digest(secret.encode(), content, hashlib.sha256)).decode()


def standard_headers(
    body: bytes, message_id: str | None = None, *, secret: str = SECRET, at: datetime | None = None
) -> dict[str, str]:
    """Return the headers of a Standard Webhooks request."""
    return WebhookSigner(secret).sign(message_id or new_id("msg"), body, at or datetime.now(UTC))


async def send(
    world: World, hook: str, body: object = None, headers: dict[str, str] | None = None
) -> httpx2.Response:
    """Send a request to a hook as a program would: over TCP, without a token of Choir."""
    content = (
        body if isinstance(body, bytes) else json.dumps(BODY if body is None else body).encode()
    )
    signed = standard_headers(content) if headers is None else headers
    async with make_client(world.tcp, timeout_s=30) as client:
        return await client.post(f"/v1/hooks/{hook}", content=content, headers=signed)


async def deliveries(world: World, hook: str) -> list[dict[str, Any]]:
    """Return what arrived through a hook, the newest first."""
    answer = await world.get(f"/v1/hooks/{hook}/deliveries")
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items
