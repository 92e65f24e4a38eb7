"""The hourly retention job: deletes expired rows and logs in small batches.

The log of an ended session is verified before it is erased. Its hashes stay until the session's row
is deleted, so that `session verify` keeps working.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from choir_common.postgres.pool import Database
from choir_common.wire.config import Config
from choir_control.configuration.current import ConfigService
from choir_control.log.audit.verifier import LogVerifier
from choir_control.log.retention.log_eraser import BATCH_ROWS, PAUSE_S, LogEraser
from choir_control.log.retention.log_store import ErasedLogStore
from choir_control.log.retention.row_store import ExpiredRowStore
from choir_control.log.signals.store import SignalStore
from choir_control.money.old_ledger_store import OldLedgerStore

log = structlog.get_logger("choir.retention")

INTERVAL_S = 3_600.0
KEEP_SIGNALS = timedelta(days=1)
"""Signals are only a queue, and the log stores their results. One day allows for troubleshooting."""
MAX_BATCHES = 100

# Functions of the row stores, which differ only in their statement.
PruneBatch = Callable[[timedelta, int], Awaitable[int]]


class RetentionJob:
    """Job that deletes old rows and erases old logs."""

    def __init__(
        self,
        database: Database,
        verifier: LogVerifier,
        configuration: ConfigService,
        *,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._rows = ExpiredRowStore(database)
        self._logs = ErasedLogStore(database)
        self._signals = SignalStore(database)
        self._ledger = OldLedgerStore(database)
        self._eraser = LogEraser(verifier, self._logs, pause_s=pause_s)
        self._configuration = configuration
        self._pause_s = pause_s

    async def sweep(self) -> None:
        """Delete everything that is due, up to a bound for each table.

        Raises Unavailable if the database is unavailable.
        """
        config = self._configuration.current.config
        await self._erase_logs(config)
        await self._prune("signals", KEEP_SIGNALS, self._signals.prune)
        if config.retention.messages is not None:
            keep = timedelta(days=config.retention.messages)
            await self._prune("outbox", keep, self._rows.prune_outbox)
            await self._prune("inbox", keep, self._rows.prune_inbox)
            await self._prune("schedule_runs", keep, self._rows.prune_schedule_runs)
            await self._prune("schedules", keep, self._rows.prune_schedules)
            deliveries = self._rows.prune_trigger_deliveries
            await self._prune("trigger_deliveries", keep, deliveries)
            await self._prune("agent_questions", keep, self._rows.prune_agent_questions)
        if config.retention.operations is not None:
            keep = timedelta(days=config.retention.operations)
            await self._prune("operations", keep, self._rows.prune_operations)
            await self._prune("session_epochs", keep, self._rows.prune_epochs)
        if config.retention.approvals is not None:
            keep = timedelta(days=config.retention.approvals)
            await self._prune("pending_approvals", keep, self._rows.prune_approvals)
            await self._prune("grants", keep, self._rows.prune_grants)
        if config.retention.config_versions is not None:
            keep = timedelta(days=config.retention.config_versions)
            await self._prune("config_versions", keep, self._rows.prune_config_versions)
        if config.retention.sessions is not None:
            keep = timedelta(days=config.retention.sessions)
            await self._prune("sessions", keep, self._rows.prune_sessions)
        if config.retention.ledger is not None:
            keep = timedelta(days=config.retention.ledger)
            await self._prune("ledger", keep, self._ledger.sum_up)
            await self._prune("budget_grants", keep, self._ledger.prune_grants)

    async def _prune(self, table: str, keep: timedelta, prune_batch: PruneBatch) -> None:
        count = 0
        for _ in range(MAX_BATCHES):
            batch = await prune_batch(keep, BATCH_ROWS)
            count += batch
            if batch < BATCH_ROWS:
                break
            await asyncio.sleep(self._pause_s)
        if count:
            log.info("old rows deleted", table=table, count=count)

    async def _erase_logs(self, config: Config) -> None:
        for agent_id, agent in config.agents.items():
            if agent.retention.log is not None:
                keep = timedelta(days=agent.retention.log)
                for due in await self._logs.due(agent_id, keep):
                    await self._eraser.erase(due)
        if config.retention.deleted_agents is not None:
            keep = timedelta(days=config.retention.deleted_agents)
            for due in await self._logs.list_expired_without_agent(config.agents, keep):
                await self._eraser.erase(due)
