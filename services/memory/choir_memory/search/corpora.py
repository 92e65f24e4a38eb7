"""Short-lived cache of statistics about large spaces.

Used by `recall` and `find`; next is `corpus_store`.
"""

import time
from collections import OrderedDict

from choir_common.postgres.pool import Connection
from choir_memory.search.corpus_store import Corpus, read_corpus
from choir_memory.search.scope_store import Scope, Store

FRESH_S = 60.0
"""Seconds for which statistics are cached; they change slowly."""
KEPT = 256
"""Maximum number of cached spaces; the statistics of one take about 100 KB."""


class Corpora:
    """Cache of statistics per space, read again after a minute."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Store], tuple[float, Corpus]] = OrderedDict()

    def knows(self, scope: Scope) -> bool:
        """Return whether the space of `scope` is cached, which means that it is large."""
        known = self._known.get((scope.agent_id, scope.store))
        return known is not None and time.monotonic() - known[0] < FRESH_S

    async def of(self, held: Connection, scope: Scope) -> Corpus:
        """Return the statistics of the space of `scope`."""
        name = (scope.agent_id, scope.store)
        now = time.monotonic()
        if (known := self._known.get(name)) is not None and now - known[0] < FRESH_S:
            self._known.move_to_end(name)
            return known[1]
        corpus = await read_corpus(held, scope)
        self._known[name] = (now, corpus)
        self._known.move_to_end(name)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return corpus
