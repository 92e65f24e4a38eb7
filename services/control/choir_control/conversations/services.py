"""Construction of the services for conversations: inbox, outbox, files, buttons and cards.

Made by `app`, which opens and runs them. Supplies what they need from the configuration: the agent
and gateway of a conversation (DM), the path of a workspace, the file limits.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.gateway import HttpGatewayFilesClient, NatsGatewayClient
from choir_common.clock import SystemClock
from choir_common.errors import Unavailable
from choir_common.postgres.pool import Database
from choir_common.wire.activity import DmActivity
from choir_common.wire.config import Config, FileLimits
from choir_control.approvals.buttons import ApprovalButtons
from choir_control.approvals.service import ApprovalService
from choir_control.approvals.store import ApprovalStore
from choir_control.configuration.current import ConfigService
from choir_control.conversations.activity.publisher import ActivityPublisher
from choir_control.conversations.activity.store import CardStore
from choir_control.conversations.inbox.file_fetcher import (
    FileFetcher,
    FileFetcherDependencies,
    ReceivedFileStore,
)
from choir_control.conversations.inbox.store import InboxStore
from choir_control.conversations.outbox.store import OutboxStore
from choir_control.conversations.outbox.worker import OutboxWorker
from choir_control.log.eventlog.append import EventAppender
from choir_control.log.eventlog.store import EventStore
from choir_control.log.metrics.meter import ControlMetrics
from choir_control.workspaces.outgoing_files import OutboxFileStore, OutgoingFiles
from choir_control.workspaces.spool import FileSpool
from choir_control.workspaces.staging import remove_drafts


@dataclass(frozen=True, slots=True)
class ConversationDependencies:
    """Collaborators of `ConversationServices`."""

    home: Path
    database: Database
    configuration: ConfigService
    bus: Bus
    gateway: httpx2.AsyncClient


class ConversationServices:
    """The services for conversations, wired together."""

    def __init__(self, ways: ConversationDependencies) -> None:
        self._ways = ways
        database = ways.database
        self.outgoing = OutgoingFiles(
            spool=FileSpool(ways.home / "spool" / "outbox"),
            store=OutboxFileStore(database),
            settings=ways.configuration,
        )
        self.outbox_store = OutboxStore(database)
        self.gateway = NatsGatewayClient(ways.bus)
        self.outbox = OutboxWorker(
            self.outbox_store, self.gateway, self._is_idempotent, self.outgoing.sent
        )
        self.inbox_store = InboxStore(database)
        self.fetching = FileFetcher(
            ReceivedFileStore(database),
            HttpGatewayFilesClient(ways.gateway),
            FileFetcherDependencies(self._workspace_of, self._limits),
        )
        self.approvals = ApprovalStore(database, self._user_of)
        self.activity = ActivityPublisher(
            CardStore(database), self._publish, self._gateway_of, SystemClock()
        )

    def appender(self, events: EventStore, meter: ControlMetrics) -> EventAppender:
        """Return the appender of the event log, connected to the outbox, the files and the cards."""
        return EventAppender(
            store=events,
            outbox=self.outbox,
            outgoing_files=self.outgoing,
            listener=self.activity,
            metrics=meter,
        )

    def buttons(self, desk: ApprovalService, refused: Callable[[], None]) -> ApprovalButtons:
        """Return the handler of button presses; `refused` counts those without effect."""
        return ApprovalButtons(self.approvals, desk, self._dm_of, refused)

    async def tidy(self) -> None:
        """Delete files, drafts and cards that are no longer needed."""
        await self.fetching.tidy()
        await self.outgoing.tidy()
        for workspace in self._config.workspaces.values():
            await asyncio.to_thread(remove_drafts, Path(workspace.path), time.time())
        await self.activity.prune()

    async def _publish(self, activity: DmActivity) -> None:
        if not self._ways.bus.connected:
            raise Unavailable("NATS is not reachable.")
        await self._ways.bus.publish(subjects.dm_activity(), activity)

    @property
    def _config(self) -> Config:
        return self._ways.configuration.current.config

    def _workspace_of(self, name: str) -> Path | None:
        found = self._config.workspaces.get(name)
        return Path(found.path).expanduser() if found else None

    def _limits(self) -> FileLimits:
        return self._config.limits

    def _gateway_of(self, dm: str) -> str | None:
        return self._ways.configuration.current.gateway_of(dm)

    def _user_of(self, dm: str) -> str | None:
        found = self._config.dms.get(dm)
        return found.user_id if found else None

    def _dm_of(self, gateway: str, user_id: str) -> str | None:
        for name, dm in self._config.dms.items():
            if (dm.gateway, dm.user_id) == (gateway, user_id):
                return name
        return None

    def _is_idempotent(self, gateway: str) -> bool:
        found = self._config.gateways.get(gateway)
        return found is not None and found.channel.is_idempotent
