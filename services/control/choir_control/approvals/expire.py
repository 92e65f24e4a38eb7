"""Say no in the place of a human who has not answered in time (spec 19.6). Run by `app`."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from choir_common.errors import Conflict, Unavailable
from choir_control.approvals.decide import Desk
from choir_control.approvals.store import TIMEOUT, ApprovalStore

log = structlog.get_logger("choir.approvals")

EVERY_S = 5.0
BATCH = 100


class Expiry:
    """The clock of open requests."""

    def __init__(self, store: ApprovalStore, desk: Desk, patience: Callable[[], timedelta]) -> None:
        self._store = store
        self._desk = desk
        self._patience = patience

    async def run(self) -> None:
        """Look every few seconds, for ever."""
        while True:
            try:
                await self.reject_overdue()
            except Unavailable as error:
                log.info("expiry waits for the database", error=error.message)
            except Exception:  # the outermost loop: the next look may fare better
                log.exception("expiry failed")
            await asyncio.sleep(EVERY_S)

    async def reject_overdue(self) -> int:
        """Reject what has waited too long; return how many requests that were."""
        rejected = 0
        for approval_id in await self._store.overdue(self._patience(), BATCH):
            try:
                await self._desk.decide(approval_id, "rejected", TIMEOUT)
                rejected += 1
            except Conflict:
                log.info("decided at the last moment", approval_id=approval_id)
        return rejected
