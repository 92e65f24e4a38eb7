"""Remember for a moment what is known about the large spaces that are searched.

Held by `recall`, asked by `find`; next is `corpus_store`.
"""

import time
from collections import OrderedDict

from choir_common.postgres.pool import Connection
from choir_memory.search.corpus_store import Corpus, read_corpus
from choir_memory.search.scope_store import Scope, Store

FRESH_S = 60.0
"""Seconds an estimate serves: a space does not change its nature within a minute."""
KEPT = 256
"""Spaces; the words of one take 100 KB."""


class Corpora:
    """What is known of each space, read anew every minute."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Store], tuple[float, Corpus]] = OrderedDict()

    def knows(self, scope: Scope) -> bool:
        """Tell whether the space that `scope` is in is known to be large."""
        known = self._known.get((scope.agent_id, scope.store))
        return known is not None and time.monotonic() - known[0] < FRESH_S

    async def of(self, held: Connection, scope: Scope) -> Corpus:
        """Return what is known of the space that `scope` is in."""
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
