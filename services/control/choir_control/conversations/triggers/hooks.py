"""Service for hooks: requests of programs, checked and stored before the response."""

import secrets as random_secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

import orjson
import structlog
from pydantic import JsonValue

from choir_common.clock import Clock
from choir_common.errors import InvalidRequest, NotFound, RateLimited, TooLarge, Unauthorized
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_common.redactor import Redactor
from choir_common.wire.trigger_config import HookConfig
from choir_common.wire.triggers import (
    DeliveryView,
    HookAccepted,
    HookTest,
    HookTestResult,
    HookView,
)
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.conversations.triggers.records import (
    NewDelivery,
    OpenDeliveries,
    StoredDelivery,
    hook_target,
)
from choir_control.conversations.triggers.signatures import (
    HookRequest,
    RequestFingerprint,
    check_request,
)
from choir_control.conversations.triggers.store import MAX_OPEN, TriggerStore
from choir_control.conversations.triggers.template import RenderedText, render_text
from choir_control.conversations.triggers.worker import TriggerWorker
from choir_control.request_limits import RateBucket

log = structlog.get_logger("choir.hooks")

REFUSAL = _("There is no such hook, or the request is not signed as it requires.")
FULL_RETRY_S = 60.0
KIB = 1 << 10
NOTED_REASON = 200
UNKNOWN_HOOK = HookConfig(agent="none", secret="none")  # noqa: S106 - a name
"""The hook whose signature is checked for an unknown name, so that this takes as long."""


@dataclass(slots=True)
class _HookState:
    """Figures of a hook since control started."""

    bucket: RateBucket
    refused: int = 0
    last_refusal: str = ""


class HookService:
    """Hooks, for programs and operators."""

    def __init__(
        self,
        store: TriggerStore,
        *,
        worker: TriggerWorker,
        configuration: ConfigService,
        secrets: SecretStore,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._store = store
        self._worker = worker
        self._configuration = configuration
        self._secrets = secrets
        self._redactor = redactor
        self._clock = clock
        self._states: dict[str, _HookState] = {}
        self._locks = KeyedLock()
        self._unknown_secret = random_secrets.token_hex(32)

    async def receive(self, name: str, headers: Mapping[str, str], body: bytes) -> HookAccepted:
        """Store a request durably, once, and return its id.

        Raises Unauthorized for an unknown hook or a wrong signature, RateLimited, TooLarge, and
        InvalidRequest for a body that is not JSON.
        """
        identity = self._check(name, HookRequest(headers, body, self._clock.now()))
        hook = self._configuration.current.config.hooks[name]
        self._take_token(name, hook)
        if len(body) > hook.max_kb * KIB:
            raise TooLarge(
                _("The body is larger than {max_kb} KiB (hooks.{name}.max_kb).").format(
                    max_kb=hook.max_kb, name=name
                )
            )
        saved = await self._store_once(name, parse_content(body), identity, size=len(body))
        return HookAccepted(delivery_id=saved.delivery_id, duplicate=saved.is_duplicate)

    async def test(self, name: str, request: HookTest) -> HookTestResult:
        """Return what the agent would read of a body; with `send`, let it read that."""
        hook, body = self._find(name), request.body.encode()
        content = parse_content(body)
        rendered = self._render(hook, content)
        delivery_id: str | None = None
        if request.send:
            identity = RequestFingerprint(f"test:{random_secrets.token_hex(16)}", has_id=True)
            saved = await self._store_once(name, content, identity, size=len(body))
            delivery_id = saved.delivery_id
        return HookTestResult(text=rendered.text, missing=rendered.missing, delivery_id=delivery_id)

    async def list_all(self) -> list[HookView]:
        """Return the configured hooks, by name."""
        config, counts = self._configuration.current.config, await self._store.count_open()
        return [
            self._view(name, config.hooks[name], counts.get(("hook", name), OpenDeliveries()))
            for name in sorted(config.hooks)
        ]

    async def list_deliveries(self, name: str, *, before: int, limit: int) -> list[DeliveryView]:
        """Return the deliveries of a hook, the newest first. Raises NotFound."""
        self._find(name)
        return await self._store.list_page("hook", name, before=before, limit=limit)

    def _find(self, name: str) -> HookConfig:
        hooks = self._configuration.current.config.hooks
        if name not in hooks:
            names = ", ".join(sorted(hooks)) or _("none")
            raise NotFound(
                _("There is no hook {name!r} in config.json (it has {names}).").format(
                    name=name[:80], names=names
                )
            )
        return hooks[name]

    def _check(self, name: str, request: HookRequest) -> RequestFingerprint:
        hook = self._configuration.current.config.hooks.get(name)
        secret = self._secrets.get(hook.secret) if hook is not None else None
        is_complete = hook is not None and bool(secret)
        try:
            identity = check_request(hook or UNKNOWN_HOOK, secret or self._unknown_secret, request)
        except Unauthorized as error:
            self._note_refusal(name, hook, error.message)
            raise Unauthorized(REFUSAL) from None
        if not is_complete:
            # Only with a secret that was guessed.
            raise Unauthorized(REFUSAL)
        return identity

    def _note_refusal(self, name: str, hook: HookConfig | None, reason: str) -> None:
        if hook is None:
            return
        state = self._state(name, hook)
        state.refused += 1
        is_missing = not self._secrets.get(hook.secret)
        state.last_refusal = (
            _("secret {secret} is not set").format(secret=hook.secret) if is_missing else reason
        )[:NOTED_REASON]

    def _state(self, name: str, hook: HookConfig) -> _HookState:
        state = self._states.get(name)
        if state is None:
            state = _HookState(RateBucket(hook.per_minute, self._clock.monotonic()))
            self._states[name] = state
        return state

    def _take_token(self, name: str, hook: HookConfig) -> None:
        """Count a request. Raises RateLimited above the hook's rate."""
        bucket = self._state(name, hook).bucket
        wait_s = bucket.wait_s(hook.per_minute, self._clock.monotonic())
        if wait_s:
            raise RateLimited(
                _(
                    "This hook takes {per_minute} requests a minute (hooks.{name}.per_minute)."
                ).format(per_minute=hook.per_minute, name=name),
                retry_after_s=ceil(wait_s),
            )

    async def _store_once(
        self, name: str, content: JsonValue, identity: RequestFingerprint, *, size: int
    ) -> StoredDelivery:
        config, now = self._configuration.current.config, self._clock.now()
        hook = config.hooks[name]
        delivery = NewDelivery(
            target=hook_target(config, name),
            text=self._render(hook, content).text,
            key=identity.key,
            content_key=identity.content_key,
            size=size,
            received_at=now,
        )
        async with self._locks.of(name):
            if not identity.has_id and identity.content_key is None:
                window = timedelta(seconds=hook.repeat_window_s)
                await self._store.release_key("hook", name, key=identity.key, before=now - window)
            saved = await self._store.add(delivery)
        if saved is None:
            raise RateLimited(
                _("{max_open} requests of this hook wait for the agent; try again later.").format(
                    max_open=MAX_OPEN
                ),
                retry_after_s=FULL_RETRY_S,
            )
        if not saved.is_duplicate:
            self._worker.wake()
        return saved

    def _render(self, hook: HookConfig, content: JsonValue) -> RenderedText:
        rendered = render_text(hook.template, content)
        text = self._redactor.redact(rendered.text.replace("\x00", ""))
        return RenderedText(text, rendered.missing)

    def _view(self, name: str, hook: HookConfig, counts: OpenDeliveries) -> HookView:
        target = hook_target(self._configuration.current.config, name)
        state = self._state(name, hook)
        has_secret = bool(self._secrets.get(hook.secret))
        return HookView(
            name=name,
            path=f"/v1/hooks/{name}",
            agent_id=target.agent_id,
            dm=target.dm,
            kind=hook.kind,
            signature=hook.signature,
            waiting=counts.waiting,
            running=counts.running,
            refused=state.refused,
            last_refusal=state.last_refusal,
            note=""
            if has_secret
            else _("the secret {secret} is not set").format(secret=hook.secret),
        )


def parse_content(body: bytes) -> JsonValue:
    """Return the JSON of a body. Raises InvalidRequest."""
    try:
        content: JsonValue = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            _("The body must be JSON in UTF-8: {error}.").format(error=str(error))
        ) from None
    return content
