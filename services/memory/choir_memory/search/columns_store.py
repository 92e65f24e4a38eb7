"""The part of a statement that reads documents as columns, which `material.take_apart` takes.

Used by `whole_store` and `material_store`. Neither text nor vector leaves the database: a document says how
often it holds each term, and how near its nearest passage is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_memory.embedding.port import QueryVector
from choir_memory.search.material import NOWHERE
from choir_memory.search.scope_store import Scope

# Sessions go by a number made of their names, 0 for none; documents by where they lie on disk, which is the
# same all through a statement and shorter than an id. One of several passages comes once for each.
_DOCUMENTS = """
array_agg(d.id) AS ids, array_send(array_agg({at})) AS places,
array_send(array_agg(coalesce(hashtextextended({group}, 0), 0))) AS sessions,
array_send(array_agg(coalesce({position}, {nowhere}))) AS positions,
array_send(array_agg(d.tokens)) AS tokens, {speakers} AS speakers, {asking} AS asking,
{moments} AS happened_at, {cosines} AS cosines, {eligible} AS eligible
"""
# The topics of a session's summary stand beside each other, but beside none of its turns.
_SESSION_POSITION = (
    "CASE d.tier WHEN 'long_term_summary' THEN {nowhere} + d.chunk_index ELSE d.chunk_index END"
)
_HELD = """
array_send(array_agg({at})) AS held_places, array_send(array_agg(t.n)) AS held_terms,
array_send(array_agg(ts_rank(d.tsv, t.term))) AS held_ranks
"""
# the question's vector and the terms are read once, not once a row
_COSINES = (
    "array_send(array_agg(coalesce(1 - (e.embedding <=> (SELECT $2::text::halfvec)), 'NaN')))"
)
_VECTORS = "LEFT JOIN {embeddings} e ON e.document_id = d.id AND e.model = $3"
_TERMS = """
terms AS MATERIALIZED (
    SELECT n::int AS n, term::tsquery AS term FROM unnest($1::text[]) WITH ORDINALITY AS t (term, n)
)
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be known of the documents."""

    scope: Scope
    terms: Sequence[str]
    vector: QueryVector | None
    dated: bool
    """Whether it matters when they happened: reading a moment costs more than weighing it."""
    place: str = "d.ctid"
    """What names a document for the length of the statement."""

    @property
    def arguments(self) -> tuple[object, ...]:
        """Return the values of the first placeholders."""
        terms = quoted(self.terms)
        vector = self.vector
        return (terms,) if vector is None else (terms, vector.text, vector.model)

    def sql(self, statement: str, first: int) -> str:
        """Return `statement` with its columns; those of the scopes count from `first`, the wider one's first.

        {told} is what may be told at all: what stands around a hit, too.
        """
        scope, told = self.scope, self.scope.surroundings()
        session = scope.store == "session"
        found = "NULL" if scope == told else "array_send(array_agg(coalesce(({scope}), false)))"
        parts = {
            "{documents_columns}": _DOCUMENTS,
            "{held_columns}": _HELD,
            "{at}": self.place,
            "{terms}": _TERMS,
            "{vectors}": "" if self.vector is None else _VECTORS,
            "{cosines}": "NULL" if self.vector is None else _COSINES,
            "{position}": _SESSION_POSITION if session else "d.chunk_index",
            "{speakers}": "array_agg(d.speaker)" if session else "NULL::text[]",
            "{asking}": "array_send(array_agg(d.asking))" if session else "NULL",
            "{moments}": "array_agg({happened_at})" if self.dated else "NULL",
            "{eligible}": found,
            "{nowhere}": str(NOWHERE),
            "{group}": "d.session_id" if session else "d.collection",
            "{told}": told.condition(first),
        }
        for name, part in parts.items():
            statement = statement.replace(name, part)
        return scope.sql(statement, first + len(told.arguments))

    @property
    def scope_arguments(self) -> tuple[object, ...]:
        """Return the values of the scopes' placeholders."""
        scope, told = self.scope, self.scope.surroundings()
        return told.arguments if scope == told else (*told.arguments, *scope.arguments)


def quoted(terms: Sequence[str]) -> list[str]:
    """Return terms as Postgres reads queries of one word."""
    return [f"'{term}'" for term in terms]
