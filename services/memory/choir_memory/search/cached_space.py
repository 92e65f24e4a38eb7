"""A small space in memory: the columns and vectors of its documents as one transaction saw them. Pure.

Texts and terms are not in memory. The similarity of all documents to a query is computed here instead of in
the database.
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

BYTES_PER_DOCUMENT = 500
"""Estimated bytes of a document without its vector: id, speaker, time, and a number per column."""
ROWS_PER_STEP = 256
"""Vectors converted to 32 bits at a time, so that they stay in the processor's cache."""


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
    vectors: npt.NDArray[np.float16]
    """One row per passage."""
    lengths: Floats
    vector_rows: RowNumbers
    """The document of each vector."""

    @property
    def size(self) -> int:
        """Return the estimated size in bytes."""
        vectors = self.vectors.nbytes + self.lengths.nbytes + self.vector_rows.nbytes
        return vectors + BYTES_PER_DOCUMENT * len(self.documents.ids)

    def with_cosines(self, query: HalfVector) -> CandidateTable:
        """Return the documents with their similarity to `query`: that of the most similar passage."""
        cosines = np.full(len(self.documents.ids), np.nan)
        # NaN: a document without a vector or, as in pgvector, with a vector of zeros
        with np.errstate(invalid="ignore", divide="ignore"):
            np.fmax.at(cosines, self.vector_rows, self._similarities(query))
        return replace(self.documents, cosines=cosines)

    def _similarities(self, query: HalfVector) -> Floats:
        halves = query.to_numpy()
        vector = halves.astype(np.float32)
        products = np.empty(len(self.vectors))
        for first in range(0, len(self.vectors), ROWS_PER_STEP):
            rows = self.vectors[first : first + ROWS_PER_STEP].astype(np.float32)
            # no matrix product: its rounding depends on the row's position, and equal texts must be equal
            products[first : first + ROWS_PER_STEP] = np.einsum("ij,j->i", rows, vector)
        similarities: Floats = products / (self.lengths * _lengths(halves[None, :]))
        return np.clip(similarities, -1.0, 1.0)


def decode_space(row: Record, dimensions: int) -> CachedSpace:
    """Decode the result row of `cached_space_store`, which contains at least one vector."""
    documents, places = decode_documents(row)
    version = SpaceVersion(
        row["snapshot"], row["server_started_at"], row["file"], row["expires_at"]
    )
    kind = np.dtype([("dimensions", ">i2"), ("unused", ">i2"), ("value", ">f2", (dimensions,))])
    vectors = np.frombuffer(row["vectors"], kind)["value"].astype(np.float16)
    vector_rows = places.find_rows(row["places"])[decode_booleans(row["has_vector"])]
    # equal names share one string
    names: dict[str | None, str | None] = {}
    speakers = [names.setdefault(speaker, speaker) for speaker in documents.speakers]
    documents = replace(documents, speakers=speakers)
    # shared by the tables of all searches
    documents = replace(documents, known_neighbourhood=documents.neighbourhood)
    return CachedSpace(version, documents, places, vectors, _lengths(vectors), vector_rows)


def _lengths(vectors: npt.NDArray[np.float16]) -> Floats:
    lengths = np.empty(len(vectors))
    for first in range(0, len(vectors), ROWS_PER_STEP):
        rows = vectors[first : first + ROWS_PER_STEP].astype(np.float32)
        lengths[first : first + ROWS_PER_STEP] = np.einsum("ij,ij->i", rows, rows)
    return np.sqrt(lengths)
