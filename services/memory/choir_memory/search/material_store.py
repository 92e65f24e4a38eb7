"""Read what the fusion weighs of a large space: what the arms named, and what stands around it.

Called by `find` on a connection that may read the agent's schema; next is `material.take_apart`.
"""

from collections.abc import Iterable
from dataclasses import replace

from choir_common.postgres.pool import Connection
from choir_memory.search.columns_store import Wanted, quoted
from choir_memory.search.material import NO_MATERIAL, Material, take_apart
from choir_memory.search.scored import Scored

REACH = 2
"""Places to either side that say something about a document."""

# OFFSET 0: place by place; the planner would rather read the whole table
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
    SELECT w.place, d.* FROM wanted w
    CROSS JOIN LATERAL (SELECT * FROM {documents} WHERE ctid = w.place OFFSET 0) AS d
)
SELECT documents.*, held.* FROM (
    SELECT {documents_columns} FROM told d {vectors}
) AS documents CROSS JOIN (
    SELECT {held_columns} FROM told d JOIN terms t ON d.tsv @@ t.term
    WHERE d.tsv @@ (SELECT {any}::text::tsquery)
) AS held
"""


async def read_material(
    held: Connection, wanted: Wanted, candidates: Iterable[Scored], *, beside: bool
) -> Material:
    """Return the candidates and, if wanted, what stands `beside` them, up to two places away."""
    listed = {one.document_id: one for one in candidates}
    if not listed:
        return NO_MATERIAL
    # what has a place is found among what stands around it
    placed = [one for one in listed.values() if beside and one.session_id is not None]
    alone = listed.keys() - {one.document_id for one in placed}
    arguments = (
        *wanted.arguments,
        list(alone),
        [one.session_id for one in placed],
        [one.chunk_index for one in placed],
        " | ".join(quoted(wanted.terms)),
    )
    row = await held.fetchrow(
        _sql(wanted, len(wanted.arguments) + 1), *arguments, *wanted.scope_arguments
    )
    return take_apart(row, len(wanted.terms))[0] if row else NO_MATERIAL


def _sql(wanted: Wanted, first: int) -> str:
    names = ("{ids}", "{sessions}", "{positions}", "{any}")
    statement = _MATERIAL.replace("{reach}", str(REACH))
    wanted = replace(wanted, place="d.place")
    for at, name in enumerate(names, first):
        statement = statement.replace(name, f"${at}")
    return wanted.sql(statement, first + len(names))
