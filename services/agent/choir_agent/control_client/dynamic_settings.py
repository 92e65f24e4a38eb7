"""Current settings and secrets of the agent, replaced as a whole when control has newer ones.

Read at the start of each model call. A heartbeat response or a signal announces a new version. The models in
them have their context windows, which the agent asks from the models' own servers.
"""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import structlog

from choir_agent.control_client.control_client import ControlClient
from choir_agent.settings import CurrentSettings
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, Forbidden, NotFound, Unavailable
from choir_common.telemetry import Redactor
from choir_common.wire.config import AgentSettings, ModelConfig
from choir_common.wire.rpc import ConfigRequest, SecretsRequest
from choir_models.context_windows import PAUSE_S, ContextWindow

log = structlog.get_logger("choir.agent.settings")

RETRY_S = 2.0


class SettingsListener(Protocol):
    """Receiver of each new version of the settings."""

    async def apply_settings(self, current: CurrentSettings) -> None:
        """Apply new settings; must not raise."""


class SettingsListeners:
    """Several receivers, one after the other."""

    def __init__(self, *listeners: SettingsListener) -> None:
        self._listeners = listeners

    async def apply_settings(self, current: CurrentSettings) -> None:
        """Apply new settings in each."""
        for listener in self._listeners:
            await listener.apply_settings(current)


class ContextWindowSource(Protocol):
    """Finds the context windows of models."""

    async def find(self, model: ModelConfig, api_key: str | None) -> ContextWindow:
        """Return a model's window; must not raise."""
        ...


class DynamicSettings:
    """The newest settings that this agent has loaded."""

    def __init__(
        self,
        *,
        control: ControlClient,
        redactor: Redactor,
        listener: SettingsListener,
        windows: ContextWindowSource,
        version: int,
        settings: AgentSettings,
    ) -> None:
        """Start from the version and settings in control's response to INIT_HELLO."""
        self._control = control
        self._redactor = redactor
        self._listener = listener
        self._windows = windows
        self._configured = settings
        """The settings as control sent them."""
        self._has_unknown_window = False
        self.version = version
        self._current = CurrentSettings(settings)
        self._newer = asyncio.Event()
        self._swapping = asyncio.Lock()

    def current(self) -> CurrentSettings:
        """Return the current settings."""
        return self._current

    def heartbeat_interval_s(self) -> float:
        """Return the maximum pause between heartbeats, in seconds."""
        return self._current.settings.heartbeat_interval_ms / 1000

    def mark_stale(self) -> None:
        """Record that settings or secrets have changed."""
        self._newer.set()

    async def load_secrets(self) -> None:
        """Fetch the secrets that the current settings name; retries while control is unavailable."""
        backoff = Backoff()
        while True:
            try:
                await self._swap(None)
                if self._has_unknown_window:
                    # `run` waits without a limit so far.
                    self._newer.set()
                return
            except Unavailable as error:
                log.warning("cannot fetch secrets; retrying", error=error.message)
            await asyncio.sleep(backoff.pause_s())

    async def run(self) -> None:
        """Fetch settings after each announced change, until cancelled."""
        while True:
            if not await self._wait_for_news():
                async with self._swapping:
                    self._current = await self._with_windows(self._current)
                continue
            self._newer.clear()
            try:
                await self._refresh()
            except ChoirError as error:
                log.warning("cannot fetch settings; retrying", error=error.message)
                await asyncio.sleep(RETRY_S)
                self._newer.set()

    async def _wait_for_news(self) -> bool:
        """Wait for an announced change; return False if it is time to ask a model's server again."""
        try:
            async with asyncio.timeout(PAUSE_S if self._has_unknown_window else None):
                return await self._newer.wait()
        except TimeoutError:
            return False

    async def _refresh(self) -> None:
        answer = await self._control.fetch_config(
            ConfigRequest(current_config_version=self.version)
        )
        # Secrets may have changed although the settings did not (`secret apply`).
        await self._swap(answer.config)
        self.version = answer.config_version
        log.info("settings updated", version=self.version)

    async def _swap(self, settings: AgentSettings | None) -> None:
        """Load the secrets and windows of new settings, or again those of the settings of before."""
        # One at a time: a server may take a minute to tell a window, and older settings must not win.
        async with self._swapping:
            self._configured = settings or self._configured
            self._current = await self._with_windows(await self._with_secrets(self._configured))
            await self._listener.apply_settings(self._current)

    async def _with_windows(self, current: CurrentSettings) -> CurrentSettings:
        configured = self._configured
        self._has_unknown_window = False
        names = ("model", "core_model", "vision_model")
        changes: dict[str, object] = {}
        for name in names:
            model: ModelConfig | None = getattr(configured, name)
            if model is not None:
                changes[name] = await self._with_window(model, current)
        changes["fallback_models"] = {
            name: await self._with_window(model, current)
            for name, model in configured.fallback_models.items()
        }
        return CurrentSettings(configured.model_copy(update=changes), current.secrets)

    async def _with_window(self, model: ModelConfig, current: CurrentSettings) -> ModelConfig:
        window = await self._windows.find(model, current.secret(model.secret))
        self._has_unknown_window |= not window.is_known
        note = log.info if window.is_known else log.debug
        note("context window", model=model.model, tokens=window.tokens, sees=window.sees)
        return window.fill_in(model)

    async def _with_secrets(self, settings: AgentSettings) -> CurrentSettings:
        names = secret_names(settings)
        values: dict[str, str] = {}
        for name in names:
            value = await self._fetch(name)
            if value is not None:
                values[name] = value
        # Register with the redactor before any use, so that no log line ever contains a secret.
        self._redactor.add_secrets([*values.values(), *_header_values(settings, values)])
        return CurrentSettings(settings, MappingProxyType(values))

    async def _fetch(self, name: str) -> str | None:
        # One request per secret, so that a missing one does not fail the others.
        try:
            answer = await self._control.get_secrets(SecretsRequest(resources=(name,)))
        except (Forbidden, NotFound) as error:
            # A tool that needs it will report that; the session must continue.
            log.warning("secret not available", secret=name, error=error.message)
            return None
        return answer.secrets.get(name)


def _header_values(settings: AgentSettings, values: Mapping[str, str]) -> list[str]:
    """Return secrets as HTTP headers contain them: user name and token joined, for basic authentication."""
    git = settings.git_identity
    return [f"{git.username}:{values[git.secret]}"] if git and git.secret in values else []


def secret_names(settings: AgentSettings) -> tuple[str, ...]:
    """Return the sorted names of the secrets that the settings refer to."""
    return tuple(sorted(settings.secret_names()))
