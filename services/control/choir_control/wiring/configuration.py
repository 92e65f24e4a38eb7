"""Wiring of configuration and secrets: from their files to the agents and the gateway."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2
from fastapi import APIRouter

from choir_common.bus.client import Bus
from choir_common.clock import Clock
from choir_common.redactor import Redactor
from choir_control.agents.rollout.config_staging import AgentSocketOpener, ConfigStaging
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.agents.sessions.conversation_reconciler import ConversationReconciler
from choir_control.agents.sessions.store import SessionStore
from choir_control.api.operator.config import config_routes, secret_routes
from choir_control.configuration.current import ConfigService
from choir_control.configuration.file_editor import ConfigFileEditor
from choir_control.configuration.secrets.bot_tokens import BotTokenPublisher, CertificateSource
from choir_control.configuration.secrets.mcp_tokens import McpTokenRenewer
from choir_control.configuration.secrets.reload import SecretReloader
from choir_control.configuration.secrets.store import SecretStore
from choir_control.configuration.secrets.writer import SecretWriter
from choir_control.images.outdated_agents import OutdatedImages
from choir_control.wiring.images import ImageServices
from choir_control.wiring.log import LogServices


class ConfigurationServices:
    """`secret apply`, the staging of config.json, and the notifications about both."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        secrets: SecretStore,
        secrets_json: Path,
        deployment_secrets: Mapping[str, str],
        sessions: SessionStore,
        conversations: ConversationReconciler,
        log: LogServices,
        bus: Bus,
        clock: Clock,
        gateway: httpx2.AsyncClient,
        certificates: CertificateSource,
        sockets: AgentSocketOpener,
        images: ImageServices,
        redactor: Redactor,
    ) -> None:
        """`deployment_secrets` are added to those of secrets.json."""
        self._configuration = configuration
        self._secrets = secrets
        self.bot_tokens = BotTokenPublisher(
            gateway=gateway,
            configuration=configuration,
            secrets=secrets,
            certificates=certificates,
        )
        self.versions = self._make_versions(sessions, log, bus)
        self.secret_reloader = SecretReloader(
            path=secrets_json,
            secrets=secrets,
            deployment_secrets=deployment_secrets,
            configuration=configuration,
            announcer=self.versions,
        )
        self._secret_writer = SecretWriter(secrets_json, redactor)
        self.mcp_tokens = self._make_token_renewer(clock)
        self.staging = ConfigStaging(
            configuration=configuration,
            clock=clock,
            secrets=secrets,
            surveyor=images.surveyor,
            outdated_images=OutdatedImages(images.mirrors, images.image_store, sessions),
            version_tracker=self.versions,
            sockets=sockets,
            conversations=conversations,
        )

    def _make_token_renewer(self, clock: Clock) -> McpTokenRenewer:
        return McpTokenRenewer(
            self._configuration,
            self._secrets,
            writer=self._secret_writer,
            reloader=self.secret_reloader,
            clock=clock,
        )

    def _make_versions(
        self, sessions: SessionStore, log: LogServices, bus: Bus
    ) -> ConfigVersionTracker:
        return ConfigVersionTracker(
            configuration=self._configuration,
            store=sessions,
            signals=log.signals,
            signal_locks=log.signal_locks,
            notifier=log.notifier,
            token_publisher=self.bot_tokens,
            bus=bus,
        )

    def routes(self) -> Sequence[APIRouter]:
        """Return the routers of `/v1/config` and `/v1/secrets`."""
        return (
            config_routes(
                self._configuration,
                self.staging,
                self.versions,
                ConfigFileEditor(self._configuration, self._secrets),
            ),
            secret_routes(
                self._configuration,
                self._secrets,
                self.secret_reloader,
                self._secret_writer,
                self.versions,
            ),
        )
