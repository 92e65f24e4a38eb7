"""Maintain vector indexes and statistics and delete old traces, once a minute.

One replica at a time runs a pass: the one that has a Postgres advisory lock. The lock ends with its
connection, so a crashed replica leaves nothing to clean up. An index build that failed is logged and not
tried again for an hour, since it would probably fail as slowly again; a deadlock or a lock timeout is
retried in the next pass.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError
from choir_common.postgres.pool import Database, DedicatedConnection, StatementError
from choir_memory.maintenance import index_store, prune_store
from choir_memory.maintenance.index_plan import (
    IndexedModel,
    VectorTable,
    build_memory_mb,
    index_name,
    plan_indexes,
)

log = structlog.get_logger("choir.memory.upkeep")

ADVISORY_LOCK_KEY = 0x47726F7765
"""Key of the Postgres advisory lock."""
ANALYZE_FROM_ROWS = 1_000
"""Number of rows from which a table without statistics is analyzed."""
AGENTS_PER_PASS = 100
"""Agents per pass that have old call ids deleted; ten thousand agents take two hours."""
RETRY_AFTER_FAILURE_S = 3_600.0
TRANSIENT_SQLSTATES = frozenset({"40P01", "55P03"})
"""SQLSTATEs of a deadlock and of a lock that was not available: temporary conflicts with another session."""


@dataclass(frozen=True, slots=True)
class UpkeepSettings:
    """Intervals and thresholds of upkeep; see the settings of the same names."""

    upkeep_s: float
    index_from: int
    index_build_mb: int
    receipts_days: int
    audit_days: int
    operations_days: int


class DatabaseUpkeep:
    """The upkeep loop; start `run` as a task."""

    def __init__(self, database: Database, settings: UpkeepSettings) -> None:
        self._database = database
        self._settings = settings
        self._walked_to = ""
        self._failed: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Run a pass every `upkeep_s` seconds until cancelled."""
        while True:
            try:
                await self.round()
            except ChoirError as error:
                log.warning("database unavailable; upkeep retries", error=error.message)
            except Exception:  # the outermost loop: the next pass tries again
                log.exception("upkeep failed")
            await asyncio.sleep(self._settings.upkeep_s)

    async def round(self) -> bool:
        """Run one pass; return False if another replica has the lock."""
        async with self._try_lock() as connection:
            if connection is None:
                return False
            await self._prune(connection)
            await index_store.analyze_tables_without_statistics(connection, ANALYZE_FROM_ROWS)
            await self._maintain_indexes(connection)
            return True

    @contextlib.asynccontextmanager
    async def _try_lock(self) -> "AsyncIterator[DedicatedConnection | None]":
        # not a connection of the pool: an index build has no time limit and may keep it for an hour
        async with self._database.dedicated_connection() as connection:
            yield connection if await index_store.try_lock(connection, ADVISORY_LOCK_KEY) else None

    async def _prune(self, connection: DedicatedConnection) -> None:
        settings = self._settings
        agents = await prune_store.next_agents(connection, self._walked_to, AGENTS_PER_PASS)
        self._walked_to = agents[-1] if agents else ""
        deleted = {
            "receipts": await prune_store.prune_receipts(connection, settings.receipts_days),
            "audit": await prune_store.prune_audit(connection, settings.audit_days),
            "call_ids": await prune_store.prune_operations(
                connection, agents, settings.operations_days
            ),
        }
        # not logged: every write leaves one
        await prune_store.prune_space_changes(connection)
        if any(deleted.values()):
            log.info("old receipts, audit entries and call ids deleted", **deleted)

    async def _maintain_indexes(self, connection: DedicatedConnection) -> None:
        models = await index_store.read_models(connection)
        if not models:
            return
        await index_store.set_build_memory(connection, self._settings.index_build_mb)
        for table in await index_store.read_tables(connection, self._settings.index_from):
            planned = plan_indexes(table, models, self._settings.index_from)
            for name in planned.drop:
                await index_store.drop_index(connection, table, name)
                log.info("vector index dropped", agent_id=table.agent_id, index=name)
            for model in planned.make:
                await self._create_index(connection, table, model)

    async def _create_index(
        self, connection: DedicatedConnection, table: VectorTable, model: IndexedModel
    ) -> None:
        name = index_name(table.table, model)
        index = (table.agent_id, name)
        if time.monotonic() < self._failed.get(index, 0.0):
            return
        # `rows` is an estimate for all models together: count before an expensive build
        if not await index_store.has_enough_vectors(
            connection, table, model, self._settings.index_from
        ):
            return
        if (needed_mb := build_memory_mb(table, model)) > self._settings.index_build_mb:
            log.warning(
                "the vector index does not fit in the allowed build memory and will be built "
                "slowly; raise CHOIR_INDEX_BUILD_MB if Postgres has enough",
                agent_id=table.agent_id,
                index=name,
                wanted_mb=needed_mb,
                allowed_mb=self._settings.index_build_mb,
            )
        start = time.monotonic()
        try:
            await index_store.create_index(connection, table, model)
        except StatementError as error:
            if error.sqlstate not in TRANSIENT_SQLSTATES:
                self._failed[index] = time.monotonic() + RETRY_AFTER_FAILURE_S
            log.warning(
                "vector index build failed", agent_id=table.agent_id, index=name, error=str(error)
            )
            return
        log.info(
            "vector index created",
            agent_id=table.agent_id,
            index=name,
            seconds=round(time.monotonic() - start, 1),
        )
