"""Expire requests that nobody decided in time (spec 19.6). Run by `app`.

Time is counted while choird runs, by the clock that does not jump, and kept in the table: neither a clock
that is set nor a night in which nobody could have answered ends a request.
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
# more than this between two looks: this process was held up, and with it whoever wanted to answer
MOST_BETWEEN_S = 3 * EVERY_S


class Expiry:
    """The clock of open requests."""

    def __init__(
        self, store: ApprovalStore, desk: Desk, patience: Callable[[], timedelta], clock: Clock
    ) -> None:
        self._store = store
        self._desk = desk
        self._patience = patience
        self._clock = clock
        self._looked_at = clock.monotonic()

    async def expire_overdue(self) -> int:
        """Expire what has waited too long; return how many requests that were."""
        now = self._clock.monotonic()
        passed = timedelta(seconds=min(now - self._looked_at, MOST_BETWEEN_S))
        overdue = await self._store.wait(passed, self._patience())
        self._looked_at = now
        expired = 0
        for approval_id in overdue:
            try:
                await self._desk.decide(approval_id, "expired", TIMEOUT)
                expired += 1
            except Conflict:
                log.info("decided at the last moment", approval_id=approval_id)
        return expired
