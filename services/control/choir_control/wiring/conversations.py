"""Wiring of the services for conversations: inbox, outbox, files and progress cards."""

import asyncio
import time
from pathlib import Path

import httpx2

from choir_common.bus.client import Bus
from choir_common.clients.gateway import HttpGatewayFilesClient, NatsGatewayClient
from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_control.configuration.current import ConfigService
from choir_control.conversations.activity.publisher import ActivityPublisher, CardStore
from choir_control.conversations.inbox.file_fetcher import FileFetcher, ReceivedFileStore
from choir_control.conversations.inbox.store import InboxStore
from choir_control.conversations.outbox.store import OutboxStore
from choir_control.conversations.outbox.worker import DeliveryAnnouncer, OutboxWorker
from choir_control.conversations.people.follower_store import FollowerStore
from choir_control.conversations.people.following import Following
from choir_control.conversations.people.language_store import LanguageStore
from choir_control.conversations.people.languages import UserLanguages
from choir_control.conversations.people.link_codes import LinkCodes
from choir_control.conversations.people.service import PersonLinks
from choir_control.conversations.people.store import PersonIdentityStore
from choir_control.workspaces.outgoing_files import OutboxFileStore, OutgoingFiles
from choir_control.workspaces.spool import FileSpool
from choir_control.workspaces.staging import remove_drafts


class ConversationServices:
    """The stores and workers of conversations."""

    def __init__(
        self,
        *,
        home: Path,
        database: Database,
        configuration: ConfigService,
        bus: Bus,
        gateway: httpx2.AsyncClient,
        observer: DeliveryAnnouncer,
        clock: Clock,
    ) -> None:
        self._configuration = configuration
        self.spool = FileSpool(home / "spool" / "outbox")
        self.outgoing_files = OutgoingFiles(
            spool=self.spool,
            store=OutboxFileStore(database),
            settings=configuration,
        )
        self.gateway = NatsGatewayClient(bus)
        self.outbox_store = OutboxStore(database)
        self.outbox = OutboxWorker(
            self.outbox_store,
            gateway=self.gateway,
            configuration=configuration,
            files=self.outgoing_files,
            observer=observer,
        )
        self.inbox_store = InboxStore(database)
        self.file_fetcher = FileFetcher(
            ReceivedFileStore(database), HttpGatewayFilesClient(gateway), configuration
        )
        self.people = PersonLinks(
            PersonIdentityStore(database), configuration=configuration, codes=LinkCodes(clock)
        )
        self.following = Following(FollowerStore(database), configuration=configuration)
        self.languages = UserLanguages(LanguageStore(database), configuration=configuration)
        self.activity = ActivityPublisher(
            CardStore(database), bus=bus, configuration=configuration, clock=clock
        )

    async def tidy(self) -> None:
        """Delete files, drafts and cards that are no longer needed."""
        await self.file_fetcher.tidy()
        await self.outgoing_files.tidy()
        for workspace in self._configuration.current.config.workspaces.values():
            await asyncio.to_thread(remove_drafts, Path(workspace.path), time.time())
        await self.activity.prune()
