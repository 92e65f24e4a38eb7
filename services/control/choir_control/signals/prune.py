"""Delete signals that were done long ago, a little at a time. Run by `app`.

The log keeps what came of them; the table is only a queue.
"""

import asyncio
from datetime import timedelta

import structlog

from choir_control.signals.store import SignalStore

log = structlog.get_logger("choir.signals")

# long enough to look into what went wrong yesterday
KEEP = timedelta(days=1)
EVERY_S = 3_600.0
# a short statement holds no lock that an append would wait for
BATCH = 1_000
BATCHES = 100
PAUSE_S = 0.2


class Pruner:
    """The broom of the table `signals`."""

    def __init__(self, store: SignalStore) -> None:
        self._store = store

    async def sweep(self) -> int:
        """Delete what is old in small batches; return how many signals went."""
        gone = 0
        for _ in range(BATCHES):
            batch = await self._store.prune(KEEP, BATCH)
            gone += batch
            if batch < BATCH:
                break
            await asyncio.sleep(PAUSE_S)
        if gone:
            log.info("signals pruned", count=gone)
        return gone
