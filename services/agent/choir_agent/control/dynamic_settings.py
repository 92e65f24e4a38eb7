"""Keep the settings and secrets of the running agent, swapped whole when control has newer ones (spec 16.3).

Built by `app`; read at the start of each model call. Told of a new version by a heartbeat or a signal.
"""

import asyncio

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


class DynamicSettings:
    """The newest settings this agent has."""

    def __init__(
        self, control: Control, redactor: Redactor, version: int, settings: AgentSettings
    ) -> None:
        self._control = control
        self._redactor = redactor
        self.version = version
        self._current = CurrentSettings(settings, None)
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
                self._current = await self._with_secrets(self._current.settings)
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
        self._current = await self._with_secrets(answer.config or self._current.settings)
        self.version = answer.config_version
        log.info("settings swapped", version=self.version)

    async def _with_secrets(self, settings: AgentSettings) -> CurrentSettings:
        name = settings.model.secret
        if name is None:
            return CurrentSettings(settings, None)
        try:
            answer = await self._control.get_secrets(SecretsRequest(resources=(name,)))
        except (Forbidden, NotFound) as error:
            # the model's own refusal will tell the user; the session must go on
            log.warning("control does not give the model's secret", reason=error.message)
            return CurrentSettings(settings, None)
        value = answer.secrets.get(name)
        if value is not None:
            self._redactor.learn([value])
        else:
            log.warning("control has no value for the model's secret", secret=name)
        return CurrentSettings(settings, value)
