"""A small space in memory: the columns and vectors of its documents as one transaction saw them. Pure.

Texts are not in memory, and of the terms only common ones that were searched for. The similarity of all
documents to a query is computed here instead of in the database.
"""

from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt
from pgvector import HalfVector

from choir_common.postgres.pool import Record
from choir_memory.search.candidates import (
    CandidateTable,
    DocumentPlaces,
    decode_booleans,
    decode_documents,
)
from choir_memory.search.neighbourhood import Floats, RowNumbers
from choir_memory.search.term_cache import TermCache

BYTES_PER_DOCUMENT = 300
"""Bytes of a document without its vector: id, time, a number per column, neighbours. Measured: 270."""


@dataclass(frozen=True, slots=True)
class SpaceVersion:
    """Identification of the data that a space was read from, compared by the database."""

    snapshot: str
    """The transactions that were visible, as `pg_snapshot`."""
    server_started_at: datetime
    """After a restart or a failover, transaction ids may be used again."""
    file: int
    """The table's file; VACUUM FULL writes another one, with other positions on disk."""
    expires_at: datetime | None
    """When the next document of the space expires."""


@dataclass(frozen=True, slots=True)
class CachedSpace:
    """The documents of a scope, and their vectors of one model."""

    version: SpaceVersion
    documents: CandidateTable
    """Without cosines and counts of terms."""
    places: DocumentPlaces
    vectors: npt.NDArray[np.float32]
    """One row per passage, of length 1; NaN for a vector of zeros. 16 bits would be widened in each search,
    which takes longer than all comparisons."""
    vector_rows: RowNumbers
    """The document of each vector, in ascending order."""
    passages: RowNumbers | None
    """The vectors that are not of a single sentence; None: all of them."""
    terms: TermCache
    """Occurrences of common terms that were searched for."""

    @property
    def size(self) -> int:
        """Return the estimated size in bytes, with the most that its terms may take."""
        vectors = self.vectors.nbytes + 2 * self.vector_rows.nbytes
        return vectors + self.terms.max_bytes + BYTES_PER_DOCUMENT * len(self.documents.ids)

    def compute_cosines(self, query: HalfVector) -> tuple[Floats, Floats | None]:
        """Return the similarity of each document to `query`, that of its most similar vector.

        The second result leaves out the vectors of single sentences; None if there are none.
        """
        vector = normalize_rows(query.to_numpy()[None, :])[0]
        # no matrix product: its rounding depends on the row's position, and equal texts must be equal
        similarities = np.einsum("ij,j->i", self.vectors, vector)
        similarities.clip(-1.0, 1.0, out=similarities)
        cosines = self._highest(similarities, self.vector_rows)
        if self.passages is None:
            return cosines, None
        return cosines, self._highest(similarities[self.passages], self.vector_rows[self.passages])

    def _highest(self, similarities: npt.NDArray[np.float32], rows: RowNumbers) -> Floats:
        # NaN: a document without a vector or, as in pgvector, with a vector of zeros
        cosines = np.full(len(self.documents.ids), np.nan)
        is_first = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
        firsts = is_first.nonzero()[0]
        if len(firsts) < len(rows):
            with np.errstate(invalid="ignore"):
                similarities, rows = np.fmax.reduceat(similarities, firsts), rows[firsts]
        cosines[rows] = similarities
        return cosines


def decode_space(row: Record, dimensions: int) -> CachedSpace:
    """Decode the result row of `cached_space_store`, which contains at least one vector."""
    documents, places = decode_documents(row)
    version = SpaceVersion(
        row["snapshot"], row["server_started_at"], row["file"], row["expires_at"]
    )
    kind = np.dtype([("dimensions", ">i2"), ("unused", ">i2"), ("value", ">f2", (dimensions,))])
    vectors = normalize_rows(np.frombuffer(row["vectors"], kind)["value"])
    vector_rows = places.find_rows(row["places"])[decode_booleans(row["has_vector"])]
    order = np.argsort(vector_rows, kind="stable")
    # equal names share one string
    names: dict[str | None, str | None] = {}
    speakers = [names.setdefault(speaker, speaker) for speaker in documents.speakers]
    documents = replace(documents, speakers=speakers)
    # shared by the tables of all searches
    documents = replace(documents, known_neighbourhood=documents.neighbourhood)
    terms = TermCache(len(documents.ids))
    of_sentences = decode_booleans(row["of_sentences"])[order]
    passages = np.flatnonzero(~of_sentences) if of_sentences.any() else None
    return CachedSpace(
        version, documents, places, vectors[order], vector_rows[order], passages, terms
    )


def normalize_rows(vectors: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Return the vectors with length 1, in 32 bits."""
    rows = vectors.astype(np.float32)
    with np.errstate(invalid="ignore"):
        rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows
