"""Find candidates for a query: read a small space whole, or query the arms in a large one.

A small space that is searched often is in memory (`space_cache`).

The choice depends on the space and on whether the query is limited to one session or collection, not on
other filters.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from choir_common.postgres.pool import Connection
from choir_common.wire.memory_search import Arm
from choir_memory.embedding.embedder import QueryVector
from choir_memory.search.cached_space_store import read_space, search_cached_space
from choir_memory.search.candidate_columns_store import CandidateColumns
from choir_memory.search.candidates import NO_CANDIDATES, ArmResult, CandidateTable
from choir_memory.search.candidates_store import read_candidates
from choir_memory.search.corpus_store import CorpusCache
from choir_memory.search.full_scan_store import FullScanResult, scan_space
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.space_cache import SpaceCache, space_key
from choir_memory.search.text_arm_store import NO_TEXT_RESULT, TextResult, search_text
from choir_memory.search.vector_arm_store import (
    NO_VECTOR_RESULT,
    VectorResult,
    index_settings,
    search_vectors,
)


@dataclass(frozen=True, slots=True)
class RetrievalQuery:
    """What to retrieve."""

    scope: SearchScope
    terms: Sequence[str] | None
    """None: the full-text arm is not used."""
    vector: QueryVector | None
    with_times: bool
    with_neighbours: bool
    """Whether neighbours of matching documents are candidates; False for searches by words only."""
    depth: int
    """Number of documents each arm returns."""
    settings: Sequence[str] = ()
    """Settings that the transaction began with (see `transaction_settings`)."""
    vectors: VectorResult | None = None
    """The result of the vector arm in a large space, if it is already known."""
    added: Collection[str] = ()
    """Terms that are not words of the query."""


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The results of the arms, and all documents to be ranked."""

    material: CandidateTable
    text: TextResult
    vectors: VectorResult
    lists: Mapping[Arm, Sequence[ArmResult]]


def transaction_settings(
    corpora: CorpusCache, scope: SearchScope, vector: QueryVector | None, depth: int
) -> tuple[str, ...]:
    """Return the settings to begin the transaction of a search with.

    Empty unless the space is known to be large: a search that learns it sets them itself.
    """
    corpus = None if scope.is_narrow or vector is None else corpora.find(scope)
    return () if corpus is None or vector is None else index_settings(corpus, vector, depth)


EMPTY_RESULT = RetrievalResult(NO_CANDIDATES, NO_TEXT_RESULT, NO_VECTOR_RESULT, {})


async def retrieve(
    connection: Connection, query: RetrievalQuery, *, corpora: CorpusCache, spaces: SpaceCache
) -> RetrievalResult:
    """Return the candidates for a query."""
    if not query.terms and query.vector is None:
        return _found(query, NO_CANDIDATES, NO_TEXT_RESULT, NO_VECTOR_RESULT)
    scope = query.scope
    # a space that is known to be large is not tried again
    if scope.is_narrow or corpora.find(scope) is None:
        columns = CandidateColumns(scope, query.terms or (), query.vector, query.with_times)
        scan = await _search_in_memory(connection, spaces, columns)
        if scan is None:
            scan = await scan_space(connection, columns)
        if scan is not None:
            material = scan.material if query.with_neighbours else _worded(scan.material)
            return _found(query, material, scan.text, scan.vectors)
    return await _in_large(connection, corpora, query)


async def _search_in_memory(
    connection: Connection, spaces: SpaceCache, columns: CandidateColumns
) -> FullScanResult | None:
    """Return what `scan_space` would, from memory; None if the space is not there, or has changed."""
    if (key := space_key(columns)) is None:
        return None
    space = spaces.find(key)
    if space is None and spaces.should_read(key):
        space = await read_space(connection, columns, spaces.max_entry_bytes)
        if space is not None:
            spaces.put(key, space)
    if space is None:
        return None
    scan = await search_cached_space(connection, space, columns)
    if scan is None:
        spaces.drop(key)
    return scan


async def _in_large(
    connection: Connection, corpora: CorpusCache, query: RetrievalQuery
) -> RetrievalResult:
    scope, text, vectors = query.scope, NO_TEXT_RESULT, NO_VECTOR_RESULT
    corpus = await corpora.of(connection, scope)
    if query.terms:
        text = await search_text(connection, scope, corpus, query.terms, query.depth)
    if query.vectors is not None:
        vectors = query.vectors
    elif query.vector is not None:
        vectors = await search_vectors(
            connection, scope, corpus, query.vector, query.depth, settings=query.settings
        )
    columns = CandidateColumns(scope, text.terms, query.vector, query.with_times)
    material = await read_candidates(
        connection, columns, (*text.hits, *vectors.hits), with_neighbours=query.with_neighbours
    )
    return _found(query, material, text, vectors)


def _found(
    query: RetrievalQuery, material: CandidateTable, text: TextResult, vectors: VectorResult
) -> RetrievalResult:
    lists: dict[Arm, Sequence[ArmResult]] = {}
    if query.terms is not None:
        lists["text"] = text.hits
    if query.vector is not None:
        lists["vector"] = vectors.hits
    return RetrievalResult(material, text, vectors, lists)


def _worded(material: CandidateTable) -> CandidateTable:
    return material.select_rows(np.flatnonzero(material.counts.any(axis=1)))
