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
from choir_common.clients.memory_orders import BusMemoryOrders
from choir_common.clock import SystemClock
from choir_common.http.listen import serve
from choir_common.http.service_app import Readiness, make_service_app
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_common.wire.memory_orders import MemoryOrders
from choir_memory import VERSION
from choir_memory.audit.store import AuditStore
from choir_memory.embedding.choose import choose
from choir_memory.embedding.embedders import Embedders
from choir_memory.embedding.figures import EmbeddingFigures
from choir_memory.embedding.queue import EmbeddingQueue, Pace
from choir_memory.embedding.rebuild import Rebuild
from choir_memory.endpoints.agents import AgentDoor
from choir_memory.endpoints.collections import CollectionDoor
from choir_memory.endpoints.hints import HintDoor
from choir_memory.endpoints.operator import OperatorDoor
from choir_memory.endpoints.reminders import ReminderDoor
from choir_memory.endpoints.sessions import SessionDoor
from choir_memory.grains.errands import Errands, OwnModel
from choir_memory.grains.rounds import Rounds
from choir_memory.growth.upkeep import Habits, Upkeep
from choir_memory.health import Health
from choir_memory.knowledge.upsert import Knowledge
from choir_memory.layers.collections import Collections
from choir_memory.layers.episodes import remember_episode
from choir_memory.layers.openai_model import OpenAiModel
from choir_memory.layers.reminders import Reminding
from choir_memory.layers.tool_errors import ToolErrors, remember_troubles
from choir_memory.operator.carry import Carry
from choir_memory.operator.change import Change
from choir_memory.operator.look import Look
from choir_memory.schema.lease_store import Leases
from choir_memory.schema.spaces import Spaces
from choir_memory.schema.store import SpaceStore
from choir_memory.search.recall import Recall
from choir_memory.sessions.archive import Archive
from choir_memory.sessions.erase import Eraser
from choir_memory.sessions.promote import Promotion
from choir_memory.sessions.record import Recorder
from choir_memory.settings import MemorySecrets, MemorySettings

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
        self._spaces = Spaces(store)
        deadline_s = settings.query_embedding_deadline_s
        choice = choose(settings, secrets.embedding_key)
        self._embedders = Embedders(self._database, choice, SystemClock(), deadline_s)
        self._queue = EmbeddingQueue(self._database, self._spaces, self._embedders, _pace(settings))
        self._metrics = Metrics(SERVICE)
        self._figures = EmbeddingFigures(self._metrics, self._queue, self._embedders)
        self._rebuild = Rebuild(
            self._database,
            self._spaces,
            self._embedders,
            self._queue.announce,
            settings.embedding_poll_s,
            settings.embedding_grace_s,
        )
        database, spaces, audit = self._database, self._spaces, AuditStore(self._database)
        knowledge = Knowledge(database, spaces, self._queue.announce)
        recall = Recall(database, spaces, self._embedders, SystemClock())
        self._agents = AgentDoor(spaces, knowledge, recall, self._queue, self._embedders, audit)
        self._reminders = ReminderDoor(Reminding(database, spaces, recall, SystemClock()))
        self._operators = OperatorDoor(
            Look(database, spaces, recall, audit),
            Change(database, spaces, knowledge),
            Carry(database, spaces, audit, self._queue.announce),
        )
        self._sessions = self._session_door()
        self._errands = self._make_errands(secrets)
        self._rounds = Rounds(store.agents, self._errands.make, settings.round_s)
        self._upkeep = Upkeep(self._database, _habits(settings))
        self._health = Health(self._database, self._bus, self._embedders)

    def _session_door(self) -> SessionDoor:
        database, spaces, announce = self._database, self._spaces, self._queue.announce
        return SessionDoor(
            Recorder(database, spaces, announce),
            Archive(
                database,
                spaces,
                Promotion(database, announce),
                announce,
                remember_troubles,
                remember_episode,
            ),
            Eraser(database, spaces),
        )

    async def run(self, sockets: Sequence[socket.socket], stop: asyncio.Event) -> None:
        """Serve until `stop` is set; raises StartupError (in an exception group) when the service
        cannot start."""
        readiness = Readiness(self._health.check)
        http = make_service_app(SERVICE, VERSION, readiness, metrics=self._metrics)
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
        hints = HintDoor(ToolErrors(self._database, self._spaces, SystemClock()))
        brought = CollectionDoor(Collections(self._database, self._spaces, self._queue.announce))
        doors = (self._agents, self._sessions, self._operators, self._reminders, hints, brought)
        return tuple(endpoint for door in doors for endpoint in door.table())

    def _make_errands(self, secrets: MemorySecrets) -> Errands:
        key = _shown(secrets.model_key)
        return Errands(
            self._database,
            self._spaces,
            Leases(self._database, uuid4().hex),
            SystemClock(),
            self._embedders.embed_query,
            self._queue.announce,
            OwnModel(
                lambda wanted: OpenAiModel(wanted, key if wanted.secret else None),
                secrets.model.secret if secrets.model else None,
            ),
            BusMemoryOrders(self._bus).read,
            MemoryOrders(model=secrets.model, retention=secrets.retention),
        )

    async def _warm(self) -> None:
        # a new installation has no documents: do not load the model (about 150 MB) until it is
        # needed
        if await self._spaces.any():
            await self._embedders.warm()


def _habits(settings: MemorySettings) -> Habits:
    return Habits(
        upkeep_s=settings.upkeep_s,
        index_from=settings.index_from,
        index_build_mb=settings.index_build_mb,
        receipts_days=settings.receipts_days,
        audit_days=settings.audit_days,
        operations_days=settings.operations_days,
    )


def _pace(settings: MemorySettings) -> Pace:
    return Pace(
        tick_s=settings.embedding_tick_s,
        poll_s=settings.embedding_poll_s,
        retry_s=settings.embedding_retry_s,
        sweep_s=settings.embedding_sweep_s,
    )


def _shown(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
