"""Content of a session for its summary, under the agent's role."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Connection
from choir_memory.documents.model import (
    TRUST,
    Conversations,
    least_trust,
    parse_conversations,
)
from choir_memory.schema.store import qualified
from choir_memory.sessions.trust import Inherited, TrustSource, comparison_terms

# The least trust, and the first turns of users and agent; 200 are more than a selection can use.
_TOLD = """
SELECT min(trust) OVER () AS least, max(coalesce(ended_at, happened_at)) OVER () AS until,
       kind, speaker, origin, left(text, 400) AS text, happened_at, conversations
FROM {schema}.memory_documents WHERE session_id = $1 AND tier <> 'long_term_summary'
ORDER BY (kind <> 'turn'), chunk_index LIMIT 200
"""


@dataclass(frozen=True, slots=True)
class TurnText:
    """The beginning of a turn's text."""

    speaker: str
    origin: str
    text: str
    conversations: Conversations = None


@dataclass(frozen=True, slots=True)
class SessionOverview:
    """Overview of a session."""

    least_trust: int | None
    until: datetime | None
    turns: Sequence[TurnText]


@dataclass(frozen=True, slots=True)
class Grounds:
    """The units that a summary may rest on, and the least trust among them."""

    sources: Sequence[TrustSource]
    least: int


# For each unit, those of the given terms that it contains.
_SOURCES = """
SELECT trust, ARRAY(SELECT term FROM unnest(tsvector_to_array(tsv)) AS term WHERE term = ANY($2::text[]))
       AS terms
FROM {schema}.memory_documents WHERE session_id = $1 AND tier <> 'long_term_summary'
"""
# The same of the units of other sessions, as far as they cover the revisions named.
_INHERITED = """
SELECT d.session_id, d.trust,
       ARRAY(SELECT term FROM unnest(tsvector_to_array(d.tsv)) AS term WHERE term = ANY($4::text[])) AS terms
FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS span (session_id, first_rev, last_rev)
JOIN {schema}.memory_documents d ON d.session_id = span.session_id
WHERE d.tier <> 'long_term_summary' AND coalesce(d.last_rev, 0) >= span.first_rev
  AND coalesce(d.first_rev, 0) <= span.last_rev
"""


class SessionDetailStore:
    """Read access to the details of one agent's sessions."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def grounds(
        self,
        session_id: str,
        overview: SessionOverview,
        texts: Collection[str],
        inherited: Inherited | None,
        *,
        lane_trust: int,
    ) -> Grounds:
        """Return what these texts, said of a session, may rest on.

        With `inherited` they may repeat what the session took over: then units of earlier sessions count
        as well, and one whose units are gone or not there yet is trusted like text of unknown origin.
        `lane_trust` is the least trust of what the lane that wrote them had read.
        """
        terms = comparison_terms(texts)
        rows = await self._connection.fetch(qualified(_SOURCES, self._agent_id), session_id, terms)
        trusts = [
            TRUST["agent"],
            lane_trust,
            *([] if overview.least_trust is None else [overview.least_trust]),
        ]
        if inherited is not None and inherited.folded:
            earlier = await self._connection.fetch(
                qualified(_INHERITED, self._agent_id),
                list(inherited.spans),
                [first for first, _ in inherited.spans.values()],
                [last for _, last in inherited.spans.values()],
                terms,
            )
            trusts += [row["trust"] for row in earlier]
            trusts += [] if inherited.least is None else [inherited.least]
            if set(inherited.spans) - {row["session_id"] for row in earlier}:
                trusts.append(TRUST["derived"])
            rows = [*rows, *earlier]
        sources = [
            TrustSource(row["trust"], frozenset(row["terms"])) for row in rows if row["terms"]
        ]
        return Grounds(sources, least_trust(trusts))

    async def read_overview(self, session_id: str) -> SessionOverview:
        """Return the overview of a session with its first turns."""
        rows = await self._connection.fetch(qualified(_TOLD, self._agent_id), session_id)
        if not rows:
            return SessionOverview(None, None, ())
        turns = [
            TurnText(
                *(row["speaker"] or "", row["origin"], row["text"]),
                parse_conversations(row["conversations"]),
            )
            for row in rows
            if row["kind"] == "turn"
        ]
        return SessionOverview(rows[0]["least"], rows[0]["until"], turns)
