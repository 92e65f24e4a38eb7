"""Wiring of configuration and secrets: from their files to agents and gateway. Called by `app`."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2
from fastapi import APIRouter

from choir_common.clock import Clock
from choir_common.keyed_lock import KeyedLock
from choir_common.telemetry import Redactor
from choir_common.wire.config import Config
from choir_common.wire.config_api import BotTokens, RepoChange
from choir_control.agents.rollout.config_staging import (
    ConfigStaging,
    OpenSockets,
    StagingDependencies,
)
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.agents.sessions.store import SessionStore
from choir_control.api.operator.config import config_routes, secret_routes
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.bot_tokens import BotTokenPublisher
from choir_control.configuration.secrets.reload import RESERVED_SECRETS, SecretReloader
from choir_control.configuration.secrets.store import SecretStore
from choir_control.images.repositories.survey import RepositorySurvey
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore


@dataclass(frozen=True, slots=True)
class ConfigurationDependencies:
    """Dependencies of `ConfigurationServices`."""

    configuration: ConfigService
    sessions: SessionStore
    signals: SignalStore
    signal_locks: KeyedLock
    notifier: Notifier
    clock: Clock
    redactor: Redactor
    gateway: httpx2.AsyncClient
    control_ca: Callable[[], str]
    open_sockets: OpenSockets
    survey: Callable[[Config], Awaitable[RepositorySurvey]]
    image_changes: Callable[[Config, RepositorySurvey], Awaitable[tuple[RepoChange, ...]]]
    publish: Callable[[], Awaitable[None]]


class ConfigurationServices:
    """The secret vault, `secret apply`, the staging of config.json, and the notifications about both."""

    def __init__(
        self,
        dependencies: ConfigurationDependencies,
        secrets_json: Path,
        secrets: Mapping[str, str],
        deployment_secrets: Mapping[str, str],
    ) -> None:
        """`supplied` are secrets that the deployment adds to those of secrets.json."""
        self._configuration = dependencies.configuration
        self._trust = dependencies.control_ca
        named = {name: value for name, value in secrets.items() if name not in RESERVED_SECRETS}
        self.vault = SecretStore({**named, **deployment_secrets}, dependencies.redactor.add_secrets)
        self.token_publisher = BotTokenPublisher(dependencies.gateway, self._bot_tokens)
        self.config_notifier = ConfigVersionTracker(
            dependencies.configuration,
            dependencies.sessions,
            dependencies.signals,
            dependencies.signal_locks,
            dependencies.notifier,
            self.token_publisher,
            dependencies.publish,
        )
        self.secrets = SecretReloader(
            secrets_json,
            self.vault,
            deployment_secrets,
            dependencies.configuration.renumber,
            self.config_notifier.tell,
            self._memory_secret_names,
        )
        around = StagingDependencies(
            self.vault.find_in_text,
            dependencies.survey,
            dependencies.image_changes,
            self.config_notifier.warn,
            dependencies.open_sockets,
            self.config_notifier.tell,
        )
        self.staging = ConfigStaging(dependencies.configuration, dependencies.clock, around)

    def routes(self) -> Sequence[APIRouter]:
        """Return the routers of `/v1/config` and `/v1/secrets`."""
        return (
            config_routes(self._configuration, self.staging, self.config_notifier),
            secret_routes(self._configuration, self.vault, self.secrets, self.config_notifier),
        )

    def _memory_secret_names(self) -> Collection[str]:
        """Return the names of the secrets that the memory service uses."""
        config = self._configuration.current.config
        model = config.models.get(config.memory.model or "")
        named = (config.embedding and config.embedding.secret, model and model.secret)
        return {"embedding-key", *(name for name in named if name)}

    def _bot_tokens(self) -> BotTokens:
        """Return the secrets the gateway needs at this version: bot tokens and webhook secrets."""
        snapshot = self._configuration.current
        bots = {name for g in snapshot.config.gateways.values() for name in g.secrets}
        tokens = self.vault.get_known(bots)
        return BotTokens(version=snapshot.version, tokens=tokens, control_ca=self._trust())
