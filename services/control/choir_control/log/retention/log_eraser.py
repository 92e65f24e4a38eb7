"""Erasure of one ended session's log in small batches; the hashes of its events stay."""

import asyncio

import structlog

from choir_control.log.audit.verifier import LogVerifier
from choir_control.log.retention.log_store import ErasedLogStore, ExpiredLog

log = structlog.get_logger("choir.retention")

BATCH_ROWS = 1_000
"""Rows per statement. Short statements do not hold locks that an append waits for."""
PAUSE_S = 0.2


class LogEraser:
    """Eraser of logs and of the messages that belong to them."""

    def __init__(
        self, verifier: LogVerifier, logs: ErasedLogStore, *, pause_s: float = PAUSE_S
    ) -> None:
        self._verifier = verifier
        self._logs = logs
        self._pause_s = pause_s

    async def erase(self, due: ExpiredLog) -> None:
        """Erase a verified log with the session's messages. A damaged log stays, as evidence."""
        if not due.has_hashes:
            verification = await self._verifier.verify(due.session_id, due.head)
            if not verification.ok:
                log.warning(
                    "a log does not verify and is not erased",
                    session=due.session_id,
                    reason=verification.reason,
                )
                return
        await self.erase_events(due)
        await self._logs.finish(due.session_id)
        log.info("log erased", session=due.session_id, agent=due.agent_id, events=due.head.rev)

    async def erase_events(self, due: ExpiredLog) -> None:
        """Store the hashes of a log and delete its events."""
        # With its hashes stored the log counts as erased; the next sweep resumes an interrupted one.
        if not due.has_hashes:
            await self._logs.store_hashes(due.session_id)
        for first in range(0, due.head.rev, BATCH_ROWS):
            if first:
                await asyncio.sleep(self._pause_s)
            await self._logs.erase_batch(due.session_id, BATCH_ROWS)
