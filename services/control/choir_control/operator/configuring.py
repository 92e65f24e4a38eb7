"""Wiring of configuration and secrets: from their files to agents and gateway. Called by `app`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
from fastapi import APIRouter

from choir_common.clock import Clock
from choir_common.telemetry import Redactor
from choir_common.wire.config import Config
from choir_common.wire.configuring import BotTokens, RepoChange
from choir_control.configuration.current import Configuration
from choir_control.configuration.staging import Around, Open, Staging
from choir_control.operator.config import config_routes
from choir_control.operator.secrets import secret_routes
from choir_control.repos.survey import Survey
from choir_control.secrets.apply import OWN, SecretApply
from choir_control.secrets.bot_tokens import BotTokenCourier
from choir_control.secrets.vault import Vault
from choir_control.sessions.config_news import ConfigNews
from choir_control.sessions.store import SessionStore
from choir_control.signals.bell import Bell
from choir_control.signals.order import SignalOrder
from choir_control.signals.store import SignalStore


@dataclass(frozen=True, slots=True)
class Ends:
    """Dependencies of `Configuring`."""

    configuration: Configuration
    sessions: SessionStore
    signals: SignalStore
    order: SignalOrder
    bell: Bell
    clock: Clock
    redactor: Redactor
    gateway: httpx2.AsyncClient
    trust: Callable[[], str]
    open_doors: Open
    survey: Callable[[Config], Awaitable[Survey]]
    behind: Callable[[Config, Survey], Awaitable[tuple[RepoChange, ...]]]
    publish: Callable[[], Awaitable[None]]


class Configuring:
    """The secret vault, `secret apply`, the staging of config.json, and the notifications about both."""

    def __init__(
        self,
        ends: Ends,
        secrets_json: Path,
        secrets: Mapping[str, str],
        supplied: Mapping[str, str],
    ) -> None:
        """`supplied` are secrets that the deployment adds to those of secrets.json."""
        self._configuration = ends.configuration
        self._trust = ends.trust
        named = {name: value for name, value in secrets.items() if name not in OWN}
        self.vault = Vault({**named, **supplied}, ends.redactor.learn)
        self.courier = BotTokenCourier(ends.gateway, self._parcel)
        self.news = ConfigNews(
            ends.configuration,
            ends.sessions,
            ends.signals,
            ends.order,
            ends.bell,
            self.courier,
            ends.publish,
        )
        self.secrets = SecretApply(
            secrets_json,
            self.vault,
            supplied,
            ends.configuration.renumber,
            self.news.tell,
            self._read_by_memory,
        )
        around = Around(
            self.vault.found_in,
            ends.survey,
            ends.behind,
            self.news.warn,
            ends.open_doors,
            self.news.tell,
        )
        self.staging = Staging(ends.configuration, ends.clock, around)

    def routes(self) -> Sequence[APIRouter]:
        """Return the routers of `/v1/config` and `/v1/secrets`."""
        return (
            config_routes(self._configuration, self.staging, self.news),
            secret_routes(self._configuration, self.vault, self.secrets, self.news),
        )

    def _read_by_memory(self) -> Collection[str]:
        """Return the names of the secrets that the memory service uses."""
        config = self._configuration.current.config
        model = config.models.get(config.memory.model or "")
        named = (config.embedding and config.embedding.secret, model and model.secret)
        return {"embedding-key", *(name for name in named if name)}

    def _parcel(self) -> BotTokens:
        """Return the secrets the gateway needs at this version: bot tokens and webhook secrets."""
        snapshot = self._configuration.current
        bots = {name for g in snapshot.config.gateways.values() for name in g.secrets}
        tokens = self.vault.pick(bots)
        return BotTokens(version=snapshot.version, tokens=tokens, control_ca=self._trust())
