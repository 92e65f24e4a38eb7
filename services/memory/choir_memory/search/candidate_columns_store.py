"""SQL fragments that return documents as arrays, one per column, for `decode_columns`.

Texts and vectors stay in the database: the arrays contain the ts_rank of each term per document, and the
similarity of its passages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from choir_memory.embedding.embedder import QueryVector
from choir_memory.search.candidates import NO_POSITION, SENTENCE_OFFSET
from choir_memory.search.scope_store import CACHED_STATEMENTS, SearchScope
from choir_memory.text.splitting import FIRST_SENTENCE_PART

# Sessions are identified by a hash of their ids, 0 for none; documents by ctid, which is constant within
# a statement and shorter than an id. A document with several passages appears once per passage.
_DOCUMENTS = """
array_agg(d.id) AS ids, array_send(array_agg({at})) AS places,
array_send(array_agg(coalesce(hashtextextended({group}, 0), 0))) AS sessions,
array_send(array_agg(coalesce({position}, {nowhere}))) AS positions,
array_send(array_agg(d.tokens)) AS tokens, {speakers} AS speakers, {asking} AS asking,
{by_agent} AS by_agent, {moments} AS happened_at, {cosines} AS cosines, {eligible} AS eligible
"""
# Parts of a session's summary are neighbours of each other, but not of turns.
_SESSION_POSITION = (
    "CASE d.tier WHEN 'long_term_summary' THEN {nowhere} + d.chunk_index ELSE d.chunk_index END"
)
_HELD = """
array_send(array_agg({at})) AS held_places, array_send(array_agg(t.n)) AS held_terms,
array_send(array_agg(ts_rank(d.tsv, t.term))) AS held_ranks
"""
# subqueries: the query's vector is parsed once instead of once per row
_COSINES = f"""
array_send(array_agg(coalesce(1 - (e.embedding <=> (SELECT $2::halfvec))
    + CASE WHEN e.part >= {FIRST_SENTENCE_PART} THEN {SENTENCE_OFFSET} ELSE 0 END, 'NaN')))
"""
_VECTORS = "LEFT JOIN {embeddings} e ON e.document_id = d.id AND e.model = $3"
_TERMS = """
terms AS MATERIALIZED (
    SELECT n::int AS n, term::tsquery AS term FROM unnest($1::text[]) WITH ORDINALITY AS t (term, n)
)
"""


@dataclass(frozen=True, slots=True)
class CandidateColumns:
    """The documents and properties to read."""

    scope: SearchScope
    terms: Sequence[str]
    vector: QueryVector | None
    with_times: bool
    """Whether the time of the documents matters: reading a timestamp costs more than ranking it."""
    place: str = "d.ctid"
    """SQL expression that identifies a document within the statement."""

    @property
    def arguments(self) -> tuple[object, ...]:
        """Return the values of the first placeholders."""
        terms = quote_terms(self.terms)
        vector = self.vector
        return (terms,) if vector is None else (terms, vector.value, vector.model)

    def sql(self, statement: str, first: int) -> str:
        """Return `statement` with its columns filled in; the placeholders of the scopes start at `first`.

        `{tool_output_of}` is the condition of the wider scope: of all documents that may be shown, including
        the
        context of hits. Its placeholders come before those of the narrower scope.
        """
        return _fill(
            *(self.scope, statement, first),
            with_vector=self.vector is not None,
            with_times=self.with_times,
            place=self.place,
        )

    @property
    def scope_arguments(self) -> tuple[object, ...]:
        """Return the values of the scopes' placeholders."""
        scope, context_scope = self.scope, self.scope.context_scope()
        return (
            context_scope.arguments
            if scope == context_scope
            else (*context_scope.arguments, *scope.arguments)
        )


def quote_terms(terms: Sequence[str]) -> list[str]:
    """Return terms as Postgres tsquery literals of one word."""
    return [f"'{term}'" for term in terms]


@lru_cache(maxsize=CACHED_STATEMENTS)
def _fill(
    scope: SearchScope,
    statement: str,
    first: int,
    *,
    with_vector: bool,
    with_times: bool,
    place: str,
) -> str:
    context_scope = scope.context_scope()
    session = scope.store == "session"
    eligible = (
        "NULL" if scope == context_scope else "array_send(array_agg(coalesce(({scope}), false)))"
    )
    parts = {
        "{documents_columns}": _DOCUMENTS,
        "{held_columns}": _HELD,
        "{at}": place,
        "{terms}": _TERMS,
        "{vectors}": _VECTORS if with_vector else "",
        "{cosines}": _COSINES if with_vector else "NULL",
        "{position}": _SESSION_POSITION if session else "d.chunk_index",
        "{speakers}": "array_agg(d.speaker)" if session else "NULL::text[]",
        "{asking}": "array_send(array_agg(d.asking))" if session else "NULL",
        "{by_agent}": "array_send(array_agg(d.origin = 'agent'))" if session else "NULL",
        "{moments}": "array_agg({happened_at})" if with_times else "NULL",
        "{eligible}": eligible,
        "{nowhere}": str(NO_POSITION),
        "{group}": "d.session_id" if session else "d.collection",
        "{told}": context_scope.condition(first),
    }
    for name, part in parts.items():
        statement = statement.replace(name, part)
    return scope.fill(statement, first + len(context_scope.arguments))
