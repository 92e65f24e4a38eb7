"""Read what the fusion weighs: the candidates of the arms, and what stands around them.

Called by `recall` on a connection that may read the agent's schema. Neither text nor vector leaves the
database: a row says how often it holds each term, and how near its nearest passage is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from uuid import UUID

import numpy as np
import numpy.typing as npt

from choir_common.postgres.pool import Connection, Record
from choir_memory.embedding.port import QueryVector
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import Scored

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
"""Numbers of rows."""

REACH = 2
"""Places to either side that say something about a document."""

_NEAREST = """
(SELECT (1 - min(e.embedding <=> (SELECT $4::text::halfvec)))::float8 FROM {embeddings} e
 WHERE e.document_id = d.id AND e.model = $7::int)
"""
# ts_rank of a single term is 0.0608 times the sum of 1/i² up to its count
_HELD = """
CASE WHEN d.tsv @@ (SELECT $6::text::tsquery) THEN
    ARRAY(SELECT ts_rank(d.tsv, t.term) FROM terms t)
END
"""
# An array a column: hundreds of rows would cost more to take apart than to weigh.
_MATERIAL = """
WITH terms AS MATERIALIZED (
    -- read as a query once, not once a row: that took longer than all the rest
    SELECT n, term::tsquery AS term FROM unnest($5::text[]) WITH ORDINALITY AS t (term, n)
),
wanted AS (
    SELECT unnest($1::uuid[]) AS id
    UNION
    -- OFFSET 0: place by place by the index; the planner would rather read the whole table
    SELECT d.id FROM unnest($2::text[], $3::int[]) AS place (name, at)
    CROSS JOIN LATERAL (
        SELECT d.id FROM {documents} d WHERE {group} = place.name
        AND d.chunk_index BETWEEN place.at - {reach} AND place.at + {reach} AND {around} OFFSET 0
    ) AS d
),
material AS (
    SELECT d.id, {place}, d.tokens, {speaker} AS speaker, {asking} AS asking, {moment} AS happened_at,
           {nearest} AS cosine, {held} AS held, ({scope}) AS eligible
    FROM wanted JOIN {documents} d USING (id)
)
SELECT array_agg(id) AS ids, array_agg(session_id) AS sessions, array_agg(chunk_index) AS positions,
       array_agg(tokens) AS tokens, array_agg(speaker) AS speakers, array_agg(asking) AS asking,
       array_agg(happened_at) AS happened_at, array_agg(cosine) AS cosines, array_agg(eligible) AS eligible,
       array_agg(coalesce(held, array_fill(0::real, ARRAY[greatest(cardinality($5::text[]), 1)]))) AS held
FROM material
"""
NOWHERE = -(1 << 30)
"""The position of what has none."""
_RANK_OF_ONE = 0.06079271
_SUMS = (1.0, 1.25, 1.361111, 1.423611, 1.463611, 1.491389, 1.511797, 1.527422, 1.539768, 1.549768)
_BETWEEN = np.add(_SUMS[:-1], _SUMS[1:]) / 2


@dataclass(frozen=True)
class Material:
    """Documents as the fusion sees them, a column for each thing that is known of them.

    No slots: what is derived is made once and kept.
    """

    ids: Sequence[UUID]
    sessions: Places
    """The session (or collection) of each, by number; -1 where there is none."""
    positions: Places
    tokens: Floats
    speakers: Sequence[str | None]
    asking: Floats
    happened_at: Sequence[datetime | None]
    cosines: Floats
    """Not a number where there is no vector."""
    counts: Floats
    """A column for each term: how often it is held."""
    eligible: npt.NDArray[np.bool_]
    """Whether the filters let it be found; what stands around it may be told, and weighs, all the same."""

    def beside(self, step: int) -> Places:
        """Return for each document the row of the one `step` places on; their number where there is none."""
        known, order = self._ordered
        wanted = np.where(self.sessions >= 0, self._keys + step, -1)
        # of several at one place the last
        found = np.searchsorted(known, wanted, side="right") - 1
        there = (found >= 0) & (known[found] == wanted)
        return np.where(there, order[found], len(self.ids))

    @cached_property
    def _keys(self) -> Places:
        # positions are four bytes; no step leads from one session into another
        return (self.sessions << 34) + self.positions + (1 << 32)

    @cached_property
    def _ordered(self) -> tuple[Places, Places]:
        order = np.argsort(self._keys, kind="stable")
        return self._keys[order], order


_NO_PLACES, _NO_FLOATS = np.zeros(0, np.int64), np.zeros(0)
NO_MATERIAL = Material(
    ids=(),
    sessions=_NO_PLACES,
    positions=_NO_PLACES,
    tokens=_NO_FLOATS,
    speakers=(),
    asking=_NO_FLOATS,
    happened_at=(),
    cosines=_NO_FLOATS,
    counts=np.zeros((0, 0)),
    eligible=np.zeros(0, np.bool_),
)


async def read_material(
    held: Connection,
    scope: Scope,
    candidates: Iterable[Scored],
    vector: QueryVector | None,
    terms: Sequence[str],
    *,
    beside: bool,
    dated: bool,
) -> Material:
    """Return the candidates and, if wanted, what stands `beside` them, up to two places away.

    Only `dated` ones say when they happened: reading a moment costs more than weighing it.
    """
    listed = {one.document_id: one for one in candidates}
    if not listed:
        return NO_MATERIAL
    placed = [one for one in listed.values() if beside and one.session_id is not None]
    quoted = [f"'{term}'" for term in terms]
    arguments = (
        list(listed),
        [one.session_id for one in placed],
        [one.chunk_index for one in placed],
        vector.text if vector else None,
        quoted,
        " | ".join(quoted),
        vector.model if vector else None,
    )
    around = scope.surroundings()
    first = len(arguments) + 1
    statement = _sql(scope, around, first, nearest=vector is not None, dated=dated)
    row = await held.fetchrow(statement, *arguments, *around.arguments, *scope.arguments)
    return _material(row, len(terms)) if row and row["ids"] else NO_MATERIAL


def _sql(scope: Scope, around: Scope, first: int, *, nearest: bool, dated: bool) -> str:
    session = scope.store == "session"
    parts = {
        "{around}": around.condition(first),
        "{group}": "d.session_id" if session else "d.collection",
        "{speaker}": "d.speaker" if session else "NULL::text",
        "{asking}": "d.asking" if session else "0::real",
        # without a vector the table of vectors is not touched; both placeholders are NULL then
        "{nearest}": _NEAREST if nearest else "coalesce($4::text, $7::int::text)::float8",
        "{reach}": str(REACH),
        "{held}": _HELD,
        "{moment}": "{happened_at}" if dated else "NULL::timestamptz",
    }
    statement = _MATERIAL
    for name, part in parts.items():
        statement = statement.replace(name, part)
    return scope.sql(statement, first + len(around.arguments))


def _material(row: Record, terms: int) -> Material:
    numbers: dict[str | None, int] = {None: -1}
    sessions = [numbers.setdefault(one, len(numbers)) for one in row["sessions"]]
    return Material(
        row["ids"],
        np.array(sessions, np.int64),
        np.array([NOWHERE if at is None else at for at in row["positions"]], np.int64),
        np.array(row["tokens"], np.float64),
        row["speakers"],
        np.array(row["asking"], np.float64),
        row["happened_at"],
        np.array(row["cosines"], np.float64),
        _counts(np.array(row["held"], np.float64)[:, :terms]),
        np.array(row["eligible"], np.bool_),
    )


def _counts(ranks: Floats) -> Floats:
    """Return how often terms are held, from Postgres' ranks of them; more than ten are ten."""
    held = np.searchsorted(_BETWEEN, ranks / _RANK_OF_ONE) + 1.0
    return np.where(ranks > 0, held, 0.0)
