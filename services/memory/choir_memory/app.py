"""Composition root: build all parts of the memory service, open them in order, close them in reverse.

The health endpoints open first, so that a service that still waits for
Postgres or NATS can report that.
"""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from uuid import uuid4

import structlog
from pydantic import SecretStr

from choir_common.bus.client import Bus, Endpoint
from choir_common.clients.control import NatsMemorySettingsClient, NatsUsageClient
from choir_common.clock import Clock, SystemClock
from choir_common.errors import Unavailable
from choir_common.http.health_app import make_health_app
from choir_common.http.listen import serve
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_common.wire.config import MemoryServiceConfig
from choir_files.reader import FileReader
from choir_files.sandbox import ReadLimits
from choir_memory import VERSION
from choir_memory.admin.export_import import MemoryTransfer
from choir_memory.admin.forget import MemoryForgetter
from choir_memory.admin.read import MemoryReader
from choir_memory.admin.write import MemoryWriter, SessionEraser
from choir_memory.audit.store import AuditStore
from choir_memory.collections.file_uploads import DocumentFileReader
from choir_memory.collections.folder_scan import FolderScanner
from choir_memory.collections.folder_store import FolderStore
from choir_memory.collections.folder_watch import FolderWatcher
from choir_memory.collections.folders import FolderService
from choir_memory.collections.service import CollectionService
from choir_memory.embedding.embedder import VectorTypes
from choir_memory.embedding.factory import SettingsEmbedderFactory
from choir_memory.embedding.queue import EmbeddingQueue, QueueIntervals
from choir_memory.embedding.reembedding import Reembedding
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.endpoints import AdminEndpoints, AgentEndpoints, SessionEndpoints
from choir_memory.knowledge.upsert import KnowledgeService
from choir_memory.llm.model import ConfiguredLanguageModel
from choir_memory.llm.query_expansion import ModelQueryExpander
from choir_memory.maintenance.database_upkeep import DatabaseUpkeep, UpkeepSettings
from choir_memory.maintenance.learning import LearningScheduler
from choir_memory.maintenance.tasks import MaintenanceScheduler, MaintenanceTasks
from choir_memory.monitoring import EmbeddingMetrics, HealthCheck
from choir_memory.reminders.service import ReminderService
from choir_memory.schema.extraction_queue_store import ExtractionQueueStore
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.store import SpaceRegistry, SpaceStore
from choir_memory.search.receipt_store import ReceiptStore
from choir_memory.search.receipt_writer import ReceiptWriter
from choir_memory.search.service import SearchService
from choir_memory.search.space_cache import SpaceCache
from choir_memory.sessions.archive import SessionArchive
from choir_memory.sessions.promotion import SessionPromoter
from choir_memory.sessions.recorder import UnitRecorder
from choir_memory.settings import MemorySecrets, MemorySettings
from choir_memory.summaries.episodes import EpisodeWriter
from choir_memory.tool_errors.service import ToolErrorService
from choir_memory.usage.budget import ModelBudget
from choir_memory.usage.reporter import UsageReporter
from choir_models.fallback import CoolDowns

log = structlog.get_logger("choir.memory")

SERVICE = "choir-memory"


class MemoryService:
    """The memory service. The constructor opens nothing; `run` opens and serves."""

    def __init__(self, settings: MemorySettings, secrets: MemorySecrets) -> None:
        clock = SystemClock()
        self._database = Database(
            secrets.postgres_dsn or settings.postgres_dsn,
            _reveal(secrets.postgres_password),
            size=settings.postgres_connections,
            application=SERVICE,
            setup=VectorTypes(),
        )
        self._bus = Bus(settings.nats_url, _reveal(secrets.nats_key), "memory")
        ledger = NatsUsageClient(self._bus)
        self._usage, self._budget = UsageReporter(ledger, clock), ModelBudget(ledger, clock)
        self._space_store = SpaceStore(self._database)
        self._spaces = SpaceRegistry(self._space_store)
        self._embedders = EmbedderRegistry(
            database=self._database,
            factory=SettingsEmbedderFactory(settings, secrets.embedding_key, self._usage),
            clock=clock,
            query_deadline_s=settings.query_embedding_deadline_s,
        )
        self._queue = EmbeddingQueue(
            database=self._database,
            spaces=self._spaces,
            embedders=self._embedders,
            intervals=_queue_intervals(settings),
        )
        self._reembedding = Reembedding(
            database=self._database,
            spaces=self._spaces,
            embedders=self._embedders,
            queue=self._queue,
            poll_s=settings.embedding_poll_s,
            grace_s=settings.embedding_grace_s,
        )
        self._tool_errors = ToolErrorService(self._database, self._spaces, clock)
        self._language_model = self._build_language_model(secrets, clock)
        tasks = self._build_tasks(secrets, clock)
        self._scheduler = MaintenanceScheduler(self._space_store, tasks, settings.round_s)
        self._learning = self._build_learning(tasks, settings.extraction_poll_s)
        self._upkeep = DatabaseUpkeep(self._database, _upkeep_settings(settings))
        self._folder_watcher = self._build_folder_watcher(settings)
        self._folders, self._uploads = self._build_folders(settings), _build_uploads(settings)
        self._receipts = ReceiptWriter(ReceiptStore(self._database))
        self._metrics = Metrics(SERVICE)
        self._gauges = EmbeddingMetrics(self._metrics, self._queue, self._embedders)
        self._health = HealthCheck(self._database, self._bus, self._embedders)
        self._endpoints = (
            *self._build_agent_and_admin_endpoints(settings, clock),
            *self._build_session_endpoints().table(),
        )

    def _build_language_model(
        self, secrets: MemorySecrets, clock: Clock
    ) -> ConfiguredLanguageModel:
        return ConfiguredLanguageModel(
            secrets.model_keys(),
            usage=self._usage,
            budget=self._budget,
            cool_downs=CoolDowns(clock),
        )

    def _build_agent_and_admin_endpoints(
        self, settings: MemorySettings, clock: Clock
    ) -> tuple[Endpoint, ...]:
        database, spaces, audit = self._database, self._spaces, AuditStore(self._database)
        knowledge = KnowledgeService(database, spaces, self._queue)
        search = SearchService(
            database=database,
            spaces=spaces,
            embedders=self._embedders,
            clock=clock,
            receipts=self._receipts,
            space_cache=SpaceCache(settings.search_cache_bytes),
            expander=ModelQueryExpander(self._language_model),
        )
        agents = AgentEndpoints(
            spaces=spaces,
            knowledge=knowledge,
            search=search,
            reminders=ReminderService(database=database, spaces=spaces, search=search, clock=clock),
            tool_errors=self._tool_errors,
            queue=self._queue,
            embedders=self._embedders,
            audit=audit,
            folders=self._folders,
        )
        admin = AdminEndpoints(
            reader=MemoryReader(
                database=database,
                spaces=spaces,
                search_service=search,
                audit_log=audit,
                clock=clock,
            ),
            writer=MemoryWriter(database, spaces, knowledge),
            forgetter=MemoryForgetter(database, spaces, clock),
            transfer=MemoryTransfer(
                database=database, spaces=spaces, audit=audit, queue=self._queue
            ),
            collections=CollectionService(database, spaces, self._queue, self._folders),
            uploads=self._uploads,
            folders=self._folders,
        )
        return (*agents.table(), *admin.table())

    def _build_folders(self, settings: MemorySettings) -> FolderService:
        return FolderService(
            database=self._database,
            spaces=self._spaces,
            folders=FolderStore(self._database),
            watcher=self._folder_watcher,
            home=settings.home,
        )

    def _build_folder_watcher(self, settings: MemorySettings) -> FolderWatcher:
        folders = FolderStore(self._database)
        scanner = FolderScanner(
            database=self._database,
            queue=self._queue,
            folders=folders,
            reader=FileReader(_read_limits(settings)),
            interval_s=settings.folder_scan_s,
            max_file_mb=settings.file_max_mb,
        )
        return FolderWatcher(self._database, folders, scanner)

    def _build_session_endpoints(self) -> SessionEndpoints:
        archive = SessionArchive(
            database=self._database,
            spaces=self._spaces,
            promotion=SessionPromoter(self._database, self._queue),
            queue=self._queue,
            failures=self._tool_errors,
            episodes=EpisodeWriter(),
        )
        return SessionEndpoints(
            UnitRecorder(self._database, self._spaces, self._queue),
            archive,
            SessionEraser(self._database, self._spaces),
        )

    def _build_learning(self, tasks: MaintenanceTasks, poll_s: float) -> LearningScheduler:
        return LearningScheduler(
            extraction_queue=ExtractionQueueStore(self._database),
            tasks=tasks,
            # its own: the leases of the maintenance passes would let it in beside them
            leases=LeaseStore(self._database, uuid4().hex),
            poll_s=poll_s,
        )

    def _build_tasks(self, secrets: MemorySecrets, clock: Clock) -> MaintenanceTasks:
        return MaintenanceTasks(
            database=self._database,
            spaces=self._spaces,
            leases=LeaseStore(self._database, uuid4().hex),
            clock=clock,
            embedders=self._embedders,
            queue=self._queue,
            language_model=self._language_model,
            settings=NatsMemorySettingsClient(self._bus),
            config=MemoryServiceConfig(model=secrets.model, retention=secrets.retention),
        )

    async def run(self, sockets: Sequence[socket.socket], stop: asyncio.Event) -> None:
        """Serve until `stop` is set; raises StartupError (in an exception group) when the service
        cannot start."""
        http = make_health_app(self._health, self._metrics)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(http, sockets, stop))
            work = tasks.create_task(self._work())
            await stop.wait()
            work.cancel()

    async def _work(self) -> None:
        async with AsyncExitStack() as stack:
            # closed last: maintenance tasks may use the model until they are cancelled
            stack.push_async_callback(self._language_model.close)
            await stack.enter_async_context(self._database)
            await self._spaces.open()
            # closed after the bus, when no search can add one, and before the database
            stack.push_async_callback(self._receipts.close)
            stack.push_async_callback(self._embedders.close)
            await self._embedders.open()
            # after the bus, when no part of a file can arrive
            stack.callback(self._uploads.close)
            await stack.enter_async_context(self._bus)
            await stack.enter_async_context(self._bus.serve(SERVICE, VERSION, *self._endpoints))
            log.info("memory service started", model=self._embedders.name)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._warm())
                tasks.create_task(self._gauges.run())
                tasks.create_task(self._usage.run())
                tasks.create_task(self._reembedding.run())
                tasks.create_task(self._queue.run())
                tasks.create_task(self._upkeep.run())
                tasks.create_task(self._scheduler.run())
                tasks.create_task(self._learning.run())
                tasks.create_task(self._folder_watcher.run())

    async def _warm(self) -> None:
        # a new installation has no documents: do not load the model (about 85 MB) until it is
        # needed
        with contextlib.suppress(Unavailable):  # then the first search loads it
            if await self._spaces.any():
                await self._embedders.warm()


def _upkeep_settings(settings: MemorySettings) -> UpkeepSettings:
    return UpkeepSettings(
        upkeep_s=settings.upkeep_s,
        index_from=settings.index_from,
        index_build_mb=settings.index_build_mb,
        receipts_days=settings.receipts_days,
        audit_days=settings.audit_days,
        operations_days=settings.operations_days,
    )


def _queue_intervals(settings: MemorySettings) -> QueueIntervals:
    return QueueIntervals(
        tick_s=settings.embedding_tick_s,
        poll_s=settings.embedding_poll_s,
        retry_s=settings.embedding_retry_s,
        sweep_s=settings.embedding_sweep_s,
    )


def _build_uploads(settings: MemorySettings) -> DocumentFileReader:
    return DocumentFileReader(_read_limits(settings), settings.file_max_mb)


def _read_limits(settings: MemorySettings) -> ReadLimits:
    return ReadLimits(settings.file_memory_mb, settings.file_cpu_s)


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
