"""Expiry of approval requests that nobody decided in time. Run by `app`.

The waiting time is kept in the table. It is measured with the monotonic clock and only while choird
runs. Neither a changed system clock nor a downtime, in which nobody could answer, expires a
request.
"""

from collections.abc import Callable
from datetime import timedelta

import structlog

from choir_common.clock import Clock
from choir_common.errors import Conflict
from choir_control.approvals.decide import Desk
from choir_control.approvals.store import ApprovalStore
from choir_control.approvals.words import TIMEOUT

log = structlog.get_logger("choir.approvals")

EVERY_S = 5.0
# A longer interval means that this process was suspended, and then nobody could decide either.
MOST_BETWEEN_S = 3 * EVERY_S


class Expiry:
    """Timer of open requests; expires the overdue ones."""

    def __init__(
        self, store: ApprovalStore, desk: Desk, patience: Callable[[], timedelta], clock: Clock
    ) -> None:
        self._store = store
        self._desk = desk
        self._patience = patience
        self._clock = clock
        self._looked_at = clock.monotonic()

    async def expire_overdue(self) -> int:
        """Expire overdue requests; return how many."""
        now = self._clock.monotonic()
        passed = timedelta(seconds=min(now - self._looked_at, MOST_BETWEEN_S))
        overdue = await self._store.wait(passed, self._patience())
        # Only after a successful update: a failed one is counted by the next call.
        self._looked_at = now
        expired = 0
        for approval_id in overdue:
            try:
                await self._desk.decide(approval_id, "expired", TIMEOUT)
                expired += 1
            except Conflict:
                log.info("decided at the last moment", approval_id=approval_id)
        return expired
