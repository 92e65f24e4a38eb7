"""Keep the settings and secrets of the running agent, swapped whole when control has newer ones (spec 16.3).

Built by `app`; read at the start of each model call. Told of a new version by a heartbeat or a signal.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

import structlog

from choir_agent.control.backoff import Backoff
from choir_agent.control.client import Control
from choir_agent.settings import CurrentSettings
from choir_common.errors import ChoirError, Forbidden, NotFound, Unavailable
from choir_common.telemetry import Redactor
from choir_common.wire.config import AgentSettings
from choir_common.wire.rpc import ConfigRequest, SecretsRequest

log = structlog.get_logger("choir.agent.settings")

RETRY_S = 2.0


async def _nobody(_: CurrentSettings) -> None:
    """Tell nobody of new settings."""


class DynamicSettings:
    """The newest settings this agent has."""

    def __init__(
        self,
        control: Control,
        redactor: Redactor,
        version: int,
        settings: AgentSettings,
        adopt: Callable[[CurrentSettings], Awaitable[None]] = _nobody,
    ) -> None:
        """Start from what control said; `adopt` is told of every later state, and must not raise."""
        self._control = control
        self._redactor = redactor
        self._adopt = adopt
        self.version = version
        self._current = CurrentSettings(settings)
        self._newer = asyncio.Event()

    def current(self) -> CurrentSettings:
        """Return the settings of this moment."""
        return self._current

    def heartbeat_interval_s(self) -> float:
        """Return the longest pause between heartbeats."""
        return self._current.settings.heartbeat_interval_ms / 1000

    def renew(self) -> None:
        """Note that settings or secrets have changed."""
        self._newer.set()

    async def load_secrets(self) -> None:
        """Fetch the secrets that the present settings name (spec 14.2), for as long as it takes."""
        backoff = Backoff()
        while True:
            try:
                await self._swap(self._current.settings)
                return
            except Unavailable as error:
                log.warning("secrets not fetched; trying again", reason=error.message)
            await asyncio.sleep(backoff.pause_s())

    async def run(self) -> None:
        """Fetch newer settings whenever there are some; runs for ever."""
        while True:
            await self._newer.wait()
            self._newer.clear()
            try:
                await self._refresh()
            except ChoirError as error:
                log.warning("settings not fetched; trying again", reason=error.message)
                await asyncio.sleep(RETRY_S)
                self._newer.set()

    async def _refresh(self) -> None:
        answer = await self._control.fetch_config(
            ConfigRequest(current_config_version=self.version)
        )
        # secrets may have changed although the settings did not (secret apply)
        await self._swap(answer.config or self._current.settings)
        self.version = answer.config_version
        log.info("settings swapped", version=self.version)

    async def _swap(self, settings: AgentSettings) -> None:
        self._current = await self._with_secrets(settings)
        await self._adopt(self._current)

    async def _with_secrets(self, settings: AgentSettings) -> CurrentSettings:
        names = secret_names(settings)
        values: dict[str, str] = {}
        for name in names:
            value = await self._fetch(name)
            if value is not None:
                values[name] = value
        # learned before anything can use them: no log line may ever hold one
        self._redactor.learn([*values.values(), *_in_use(settings, values)])
        return CurrentSettings(settings, MappingProxyType(values))

    async def _fetch(self, name: str) -> str | None:
        # one by one, so that a missing one does not take the others along
        try:
            answer = await self._control.get_secrets(SecretsRequest(resources=(name,)))
        except (Forbidden, NotFound) as error:
            # whoever needs it will tell the user; the session must go on
            log.warning("control does not give a secret", secret=name, reason=error.message)
            return None
        return answer.secrets.get(name)


def _in_use(settings: AgentSettings, values: Mapping[str, str]) -> list[str]:
    """Return secrets joined with what they are sent with: a header holds the two as one base64 word."""
    git = settings.git_identity
    return [f"{git.username}:{values[git.secret]}"] if git and git.secret in values else []


def secret_names(settings: AgentSettings) -> tuple[str, ...]:
    """Return the names of the secrets that the settings' resources need (spec 14.2)."""
    return tuple(sorted(settings.secret_names()))
