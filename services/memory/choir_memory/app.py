"""Composition root: build all parts of the memory service, open them in order, close them in reverse.

Called by `__main__`. The health endpoints open first, so that a service that still waits for
Postgres or NATS can report that.
"""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from uuid import uuid4

import structlog
from pydantic import SecretStr

from choir_common.bus.client import Bus, Endpoint
from choir_common.clients.control import NatsMemorySettingsClient
from choir_common.clock import SystemClock
from choir_common.http.listen import serve
from choir_common.http.service_app import make_service_app
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_common.wire.memory_settings import MemoryServiceConfig
from choir_memory import VERSION
from choir_memory.admin.export_import import MemoryTransfer
from choir_memory.admin.read import MemoryReader
from choir_memory.admin.write import MemoryWriter
from choir_memory.audit.store import AuditStore
from choir_memory.collections.service import CollectionService
from choir_memory.embedding.factory import choose_model
from choir_memory.embedding.metrics import EmbeddingMetrics
from choir_memory.embedding.queue import EmbeddingQueue, QueueIntervals
from choir_memory.embedding.reembedding import Reembedding
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.endpoints.admin import AdminEndpoints
from choir_memory.endpoints.agents import AgentEndpoints, HintEndpoints, ReminderEndpoints
from choir_memory.endpoints.collections import CollectionEndpoints
from choir_memory.endpoints.sessions import SessionEndpoints
from choir_memory.health import HealthCheck
from choir_memory.knowledge.upsert import KnowledgeService
from choir_memory.llm.model import OpenAiLanguageModel
from choir_memory.maintenance.database_upkeep import DatabaseUpkeep, UpkeepSettings
from choir_memory.maintenance.scheduler import MaintenanceScheduler
from choir_memory.maintenance.tasks import ConfiguredLanguageModel, MaintenanceTasks
from choir_memory.reminders.service import ReminderService
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.store import SpaceRegistry, SpaceStore
from choir_memory.search.service import SearchService
from choir_memory.sessions.archive import SessionArchive
from choir_memory.sessions.erasure import SessionEraser
from choir_memory.sessions.promotion import SessionPromoter
from choir_memory.sessions.recorder import UnitRecorder
from choir_memory.settings import MemorySecrets, MemorySettings
from choir_memory.summaries.episodes import store_episode
from choir_memory.tool_errors.service import ToolErrorService, store_failures

log = structlog.get_logger("choir.memory")

SERVICE = "choir-memory"


class MemoryService:
    """The memory service. The constructor opens nothing; `run` opens and serves."""

    def __init__(self, settings: MemorySettings, secrets: MemorySecrets) -> None:
        self._database = Database(
            secrets.postgres_dsn or settings.postgres_dsn,
            _shown(secrets.postgres_password),
            size=settings.postgres_connections,
            application=SERVICE,
        )
        self._bus = Bus(settings.nats_url, _shown(secrets.nats_token), SERVICE)
        store = SpaceStore(self._database)
        self._spaces = SpaceRegistry(store)
        deadline_s = settings.query_embedding_deadline_s
        choice = choose_model(settings, secrets.embedding_key)
        self._embedders = EmbedderRegistry(self._database, choice, SystemClock(), deadline_s)
        self._queue = EmbeddingQueue(self._database, self._spaces, self._embedders, _pace(settings))
        self._metrics = Metrics(SERVICE)
        self._figures = EmbeddingMetrics(self._metrics, self._queue, self._embedders)
        self._rebuild = Reembedding(
            self._database,
            self._spaces,
            self._embedders,
            self._queue.notify,
            settings.embedding_poll_s,
            settings.embedding_grace_s,
        )
        database, spaces, audit = self._database, self._spaces, AuditStore(self._database)
        knowledge = KnowledgeService(database, spaces, self._queue.notify)
        recall = SearchService(database, spaces, self._embedders, SystemClock())
        self._agents = AgentEndpoints(
            spaces, knowledge, recall, self._queue, self._embedders, audit
        )
        self._reminders = ReminderEndpoints(
            ReminderService(database, spaces, recall, SystemClock())
        )
        self._operators = AdminEndpoints(
            MemoryReader(database, spaces, recall, audit),
            MemoryWriter(database, spaces, knowledge),
            MemoryTransfer(database, spaces, audit, self._queue.notify),
        )
        self._sessions = self._session_door()
        self._errands = self._make_tasks(secrets)
        self._rounds = MaintenanceScheduler(store.list_agents, self._errands.make, settings.round_s)
        self._upkeep = DatabaseUpkeep(self._database, _habits(settings))
        self._health = HealthCheck(self._database, self._bus, self._embedders)

    def _session_door(self) -> SessionEndpoints:
        database, spaces, announce = self._database, self._spaces, self._queue.notify
        return SessionEndpoints(
            UnitRecorder(database, spaces, announce),
            SessionArchive(
                database,
                spaces,
                SessionPromoter(database, announce),
                announce,
                store_failures,
                store_episode,
            ),
            SessionEraser(database, spaces),
        )

    async def run(self, sockets: Sequence[socket.socket], stop: asyncio.Event) -> None:
        """Serve until `stop` is set; raises StartupError (in an exception group) when the service
        cannot start."""
        http = make_service_app(SERVICE, VERSION, self._health, metrics=self._metrics)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(http, sockets, stop))
            work = tasks.create_task(self._work())
            await stop.wait()
            work.cancel()

    async def _work(self) -> None:
        async with AsyncExitStack() as stack:
            # closed last: maintenance tasks may use the model until they are cancelled
            stack.push_async_callback(self._errands.own.close)
            await stack.enter_async_context(self._database)
            await self._spaces.open()
            stack.push_async_callback(self._embedders.close)
            await self._embedders.open()
            await stack.enter_async_context(self._bus)
            await stack.enter_async_context(self._bus.serve(SERVICE, VERSION, *self._tables()))
            log.info("memory serves", model=self._embedders.name)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._warm())
                tasks.create_task(self._figures.run())
                tasks.create_task(self._rebuild.run())
                tasks.create_task(self._queue.run())
                tasks.create_task(self._upkeep.run())
                tasks.create_task(self._rounds.run())

    def _tables(self) -> tuple[Endpoint, ...]:
        hints = HintEndpoints(ToolErrorService(self._database, self._spaces, SystemClock()))
        brought = CollectionEndpoints(
            CollectionService(self._database, self._spaces, self._queue.notify)
        )
        doors = (self._agents, self._sessions, self._operators, self._reminders, hints, brought)
        return tuple(endpoint for door in doors for endpoint in door.table())

    def _make_tasks(self, secrets: MemorySecrets) -> MaintenanceTasks:
        key = _shown(secrets.model_key)
        return MaintenanceTasks(
            self._database,
            self._spaces,
            LeaseStore(self._database, uuid4().hex),
            SystemClock(),
            self._embedders.embed_query,
            self._queue.notify,
            ConfiguredLanguageModel(
                lambda wanted: OpenAiLanguageModel(wanted, key if wanted.secret else None),
                secrets.model.secret if secrets.model else None,
            ),
            NatsMemorySettingsClient(self._bus).read,
            MemoryServiceConfig(model=secrets.model, retention=secrets.retention),
        )

    async def _warm(self) -> None:
        # a new installation has no documents: do not load the model (about 150 MB) until it is
        # needed
        if await self._spaces.any():
            await self._embedders.warm()


def _habits(settings: MemorySettings) -> UpkeepSettings:
    return UpkeepSettings(
        upkeep_s=settings.upkeep_s,
        index_from=settings.index_from,
        index_build_mb=settings.index_build_mb,
        receipts_days=settings.receipts_days,
        audit_days=settings.audit_days,
        operations_days=settings.operations_days,
    )


def _pace(settings: MemorySettings) -> QueueIntervals:
    return QueueIntervals(
        tick_s=settings.embedding_tick_s,
        poll_s=settings.embedding_poll_s,
        retry_s=settings.embedding_retry_s,
        sweep_s=settings.embedding_sweep_s,
    )


def _shown(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
