"""Wiring of the connection of Telegram bots."""

from pathlib import Path

import httpx2

from choir_common.clients.bots import HttpBotClient
from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.redactor import Redactor
from choir_control.approvals.proposals.config_proposal import ConfigFile
from choir_control.configuration.current import ConfigService
from choir_control.conversations.outbox.notices import NoticeSender
from choir_control.conversations.outbox.worker import OutboxWorker
from choir_control.conversations.telegram.agent_move import AgentMover
from choir_control.conversations.telegram.binder import TelegramBinder
from choir_control.conversations.telegram.service import TelegramConnector
from choir_control.wiring.configuration import ConfigurationServices
from choir_control.wiring.sessions import SessionServices


def make_telegram_connector(
    *,
    config_file: Path,
    secrets_json: Path,
    database: Database,
    gateway: httpx2.AsyncClient,
    configuration: ConfigService,
    config_changes: ConfigurationServices,
    sessions: SessionServices,
    outbox: OutboxWorker,
    redactor: Redactor,
    clock: Clock,
) -> TelegramConnector:
    """Return the service that connects bots."""
    return TelegramConnector(
        bots=HttpBotClient(gateway),
        binder=TelegramBinder(
            configuration=configuration,
            config_file=ConfigFile(config_file),
            staging=config_changes.staging,
            secrets_json=secrets_json,
            reloader=config_changes.secret_reloader,
        ),
        mover=AgentMover(
            configuration=configuration,
            sessions=sessions.store,
            starter=sessions.starter,
            stopper=sessions.stopper,
        ),
        notices=NoticeSender(database, outbox, configuration),
        redactor=redactor,
        clock=clock,
    )
