"""Read a small space, or one session or collection, whole: everything that ranking needs.

A thousand documents take two to three milliseconds, less than retrieval by index, and nothing is missed or
estimated. The results of the arms are then computed in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from choir_common.postgres.pool import Connection
from choir_memory.search.candidate_columns_store import CandidateColumns
from choir_memory.search.candidates import (
    ARM_LIMIT,
    TS_RANK_OF_ONE,
    ArmResult,
    CandidateTable,
    TermOccurrences,
    decode_columns,
)
from choir_memory.search.corpus_store import ESTIMATED_ROWS, LARGE_SPACE_DOCUMENTS
from choir_memory.search.neighbourhood import Floats
from choir_memory.search.text_arm_store import MAX_TERMS, NO_TEXT_RESULT, TextResult
from choir_memory.search.vector_arm_store import NO_VECTOR_RESULT, VectorResult

MAX_VECTOR_TABLE_BYTES = 16 * 1024 * 1024
"""Maximum size of a vector table that is read whole; documents with many passages are searched by index."""

# In a large space only `small` is returned, and no documents are read.
_WHOLE = """
WITH {terms}, space AS MATERIALIZED (SELECT {small} AS small)
SELECT space.small, documents.*, held.* FROM space
LEFT JOIN LATERAL (
    SELECT {documents_columns} FROM {documents} d {vectors} WHERE space.small AND {told}
) AS documents ON true
LEFT JOIN LATERAL (
    SELECT {held_columns} FROM terms t JOIN {documents} d ON d.tsv @@ t.term
    WHERE space.small AND {told}
) AS held ON true
"""
FEW_DOCUMENTS = f"({ESTIMATED_ROWS}) < {LARGE_SPACE_DOCUMENTS}"
_FEW_VECTORS = f"pg_relation_size('{{embeddings}}'::regclass) < {MAX_VECTOR_TABLE_BYTES}"


@dataclass(frozen=True, slots=True)
class FullScanResult:
    """The documents of a space, and the results of both arms."""

    material: CandidateTable
    text: TextResult
    vectors: VectorResult


async def scan_space(connection: Connection, columns: CandidateColumns) -> FullScanResult | None:
    """Return the documents that match `columns`, or None if there are too many."""
    row = await connection.fetchrow(_sql(columns), *columns.arguments, *columns.scope_arguments)
    if row is None or not row["small"]:
        return None
    material, pairs = decode_columns(row, len(columns.terms))
    return build_scan_result(material, pairs, columns.terms)


def build_scan_result(
    material: CandidateTable, pairs: TermOccurrences, terms: Sequence[str]
) -> FullScanResult:
    """Return the results of both arms among these documents."""
    text, material = _text(material, pairs, terms)
    return FullScanResult(material, text, _near(material))


def _sql(columns: CandidateColumns) -> str:
    small = FEW_DOCUMENTS if columns.vector is None else f"{FEW_DOCUMENTS} AND {_FEW_VECTORS}"
    if columns.scope.is_narrow:
        small = "true"
    return columns.sql(_WHOLE.replace("{small}", small), len(columns.arguments) + 1)


def _text(
    material: CandidateTable, pairs: TermOccurrences, terms: Sequence[str]
) -> tuple[TextResult, CandidateTable]:
    """Return documents by their share of the rarest terms' information, and the material with these
    terms' counts."""
    rows, numbers, ranks, tokens = pairs.rows, pairs.terms, pairs.ranks, material.tokens
    if not material.eligible.all():
        mask = material.eligible[rows]
        rows, numbers, ranks = rows[mask], numbers[mask], ranks[mask]
        tokens = tokens[material.eligible]
    if not len(rows):
        return NO_TEXT_RESULT, material.with_counts(material.counts[:, :0])
    document_counts = np.bincount(numbers, minlength=len(terms))
    # terms that no document contains come last
    order = np.lexsort((document_counts, document_counts == 0))
    rarest = np.sort(order[:MAX_TERMS])
    documents, counts = len(tokens), document_counts[rarest].tolist()
    information = np.zeros(len(terms))
    information[rarest] = [log(1 + (documents - count + 0.5) / (count + 0.5)) for count in counts]
    mean_tokens = max(float(tokens.mean()), 1.0)
    # longer documents score slightly lower
    length = 0.9 + 0.1 * material.tokens[rows] / mean_tokens
    weights = ranks / TS_RANK_OF_ONE / length * information[numbers]
    shares = np.bincount(rows, weights, len(material.ids)) / information.sum()
    hits = _scored(material, np.flatnonzero(shares), shares)
    rare_terms = [terms[at] for at in rarest.tolist()]
    text = TextResult(hits, rare_terms, counts, documents, mean_tokens)
    if len(rarest) < len(terms):
        material = material.with_counts(material.counts[:, rarest])
    return text, material


def _near(material: CandidateTable) -> VectorResult:
    """Return the documents nearest to the query, with mean and deviation of all similarities."""
    rows = np.flatnonzero(material.eligible & ~np.isnan(material.cosines))
    if not len(rows):
        return NO_VECTOR_RESULT
    cosines = material.cosines[rows]
    hits = _scored(material, rows, material.cosines)
    mean = float(cosines.mean())
    text_cosines = material.whole_cosines
    text_mean = mean if text_cosines is None else float(np.nanmean(text_cosines[rows]))
    return VectorResult(hits, mean, float(cosines.std()), text_mean)


def _scored(
    material: CandidateTable, rows: np.typing.NDArray[np.int64], scores: Floats
) -> list[ArmResult]:
    best = material.top_rows(rows, scores, ARM_LIMIT)
    results = zip(best, scores[best].tolist(), strict=True)
    return [
        ArmResult(material.ids[row], rank, score) for rank, (row, score) in enumerate(results, 1)
    ]
