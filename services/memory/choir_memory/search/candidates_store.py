"""Read the documents to be ranked in a large space: the results of the arms and their neighbours."""

from collections.abc import Iterable
from dataclasses import replace

from choir_common.postgres.pool import Connection
from choir_memory.search.candidate_columns_store import CandidateColumns, quote_terms
from choir_memory.search.candidates import NO_CANDIDATES, ArmResult, CandidateTable, decode_columns

NEIGHBOUR_DISTANCE = 2
"""Distance in positions up to which neighbours influence a document's score."""

# OFFSET 0 forces a lookup per position; the planner would otherwise read the whole table
_MATERIAL = """
WITH {terms}, wanted AS MATERIALIZED (
    SELECT d.ctid AS place FROM unnest({ids}::uuid[]) AS alone (id)
    JOIN {documents} d ON d.id = alone.id
    UNION
    SELECT d.place FROM unnest({sessions}::text[], {positions}::int[]) AS found (name, at)
    CROSS JOIN LATERAL (
        SELECT d.ctid AS place FROM {documents} d WHERE {group} = found.name
        AND d.chunk_index BETWEEN found.at - {reach} AND found.at + {reach} AND {told} OFFSET 0
    ) AS d
),
told AS MATERIALIZED (
    SELECT d.ctid AS place, d.* FROM {documents} d WHERE d.ctid = ANY (ARRAY(SELECT place FROM wanted))
)
SELECT documents.*, held.* FROM (
    SELECT {documents_columns} FROM told d {vectors}
) AS documents CROSS JOIN (
    SELECT {held_columns} FROM told d JOIN terms t ON d.tsv @@ t.term
    WHERE d.tsv @@ (SELECT {any}::text::tsquery)
) AS held
"""


async def read_candidates(
    connection: Connection,
    columns: CandidateColumns,
    candidates: Iterable[ArmResult],
    *,
    with_neighbours: bool,
) -> CandidateTable:
    """Return the candidates and, with `with_neighbours`, their neighbours up to two positions away."""
    candidates_by_id = {candidate.document_id: candidate for candidate in candidates}
    if not candidates_by_id:
        return NO_CANDIDATES
    # documents with a position are read together with their neighbours, the others by id
    session_candidates = [
        candidate
        for candidate in candidates_by_id.values()
        if with_neighbours and candidate.session_id is not None
    ]
    other_ids = candidates_by_id.keys() - {
        candidate.document_id for candidate in session_candidates
    }
    arguments = (
        *columns.arguments,
        list(other_ids),
        [candidate.session_id for candidate in session_candidates],
        [candidate.chunk_index for candidate in session_candidates],
        " | ".join(quote_terms(columns.terms)),
    )
    row = await connection.fetchrow(
        _sql(columns, len(columns.arguments) + 1), *arguments, *columns.scope_arguments
    )
    return decode_columns(row, len(columns.terms))[0] if row else NO_CANDIDATES


def _sql(columns: CandidateColumns, first: int) -> str:
    names = ("{ids}", "{sessions}", "{positions}", "{any}")
    statement = _MATERIAL.replace("{reach}", str(NEIGHBOUR_DISTANCE))
    columns = replace(columns, place="d.place")
    for at, name in enumerate(names, first):
        statement = statement.replace(name, f"${at}")
    return columns.sql(statement, first + len(names))
