"""Cache of the occurrences of common terms in a space in memory: pure.

A common word is in many documents, and many queries contain it. Its occurrences are read once for each
version of the space; the statement of a search reads those of the other terms.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from choir_memory.search.candidates import TermOccurrences

MIN_DOCUMENTS = 16
"""A term in fewer documents is not cached: reading its occurrences costs a hundredth of a millisecond."""
BYTES_PER_DOCUMENT = 100
"""Maximum size of the cache, per document of the space: about twelve occurrences."""


@dataclass(frozen=True, slots=True)
class TermDocuments:
    """The documents that contain one term: row and ts_rank of each."""

    rows: npt.NDArray[np.int32]
    ranks: npt.NDArray[np.float32]

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return self.rows.nbytes + self.ranks.nbytes


class TermCache:
    """Occurrences of terms in one version of a space, least recently used first."""

    def __init__(self, documents: int) -> None:
        """Create the cache of a space with this number of documents."""
        self.max_bytes = BYTES_PER_DOCUMENT * documents
        self._entries: OrderedDict[str, TermDocuments] = OrderedDict()
        self._size = 0

    def find(self, terms: Sequence[str]) -> Mapping[str, TermDocuments]:
        """Return the cached terms among `terms`, and mark them as used."""
        cached = {term: self._entries[term] for term in terms if term in self._entries}
        for term in cached:
            self._entries.move_to_end(term)
        return cached

    def merge(
        self, terms: Sequence[str], cached: Mapping[str, TermDocuments], read: TermOccurrences
    ) -> TermOccurrences:
        """Return the occurrences of `terms` in their order, and cache those of common ones.

        `cached` is the result of `find` before the occurrences of the other terms were read.
        """
        unread, parts = count(), list[TermDocuments]()
        for term in terms:
            if (documents := cached.get(term)) is None:
                documents = _select(read, next(unread))
                self._add(term, documents)
            parts.append(documents)
        if not parts:
            return read
        return TermOccurrences(
            np.concatenate([part.rows for part in parts]).astype(np.int64),
            np.repeat(np.arange(len(parts)), [len(part.rows) for part in parts]),
            np.concatenate([part.ranks for part in parts]).astype(np.float64),
        )

    def _add(self, term: str, documents: TermDocuments) -> None:
        if len(documents.rows) < MIN_DOCUMENTS or term in self._entries:
            return
        self._entries[term] = documents
        self._size += documents.size
        while self._size > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._size -= oldest.size


def _select(read: TermOccurrences, number: int) -> TermDocuments:
    selected = read.terms == number
    # ts_rank has 32 bits in Postgres, too
    return TermDocuments(
        read.rows[selected].astype(np.int32), read.ranks[selected].astype(np.float32)
    )
