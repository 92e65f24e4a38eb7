"""What stands in a session, as its summary needs it. Called by `promote` under the agent's role."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Connection
from choir_memory.schema.naming import qualified
from choir_memory.sessions.sources import Source, terms_of

# the least trusted unit, and what people and the agent said, in order, as far as a selection can want it
_TOLD = """
SELECT min(trust) OVER () AS least, max(coalesce(ended_at, happened_at)) OVER () AS until,
       kind, speaker, origin, left(text, 400) AS text, happened_at
FROM {schema}.memory_documents WHERE session_id = $1 AND tier <> 'long_term_summary'
ORDER BY (kind <> 'turn'), chunk_index LIMIT 200
"""


@dataclass(frozen=True, slots=True)
class Said:
    """A turn's beginning."""

    speaker: str
    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """A session in short."""

    least_trust: int | None
    until: datetime | None
    turns: Sequence[Said]


# Of each unit the words of `$2` that it holds.
_SOURCES = """
SELECT trust, ARRAY(SELECT term FROM unnest(tsvector_to_array(tsv)) AS term WHERE term = ANY($2::text[]))
       AS terms
FROM {schema}.memory_documents WHERE session_id = $1 AND tier <> 'long_term_summary'
"""


class DetailStore:
    """Reads the details of one agent's sessions."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def sources(self, session_id: str, texts: Collection[str]) -> list[Source]:
        """Return the units of a session, each with the words of these texts that it holds."""
        rows = await self._held.fetch(
            qualified(_SOURCES, self._agent_id), session_id, terms_of(texts)
        )
        return [Source(row["trust"], frozenset(row["terms"])) for row in rows if row["terms"]]

    async def told(self, session_id: str) -> Told:
        """Return what was said in a session, from its beginning."""
        rows = await self._held.fetch(qualified(_TOLD, self._agent_id), session_id)
        if not rows:
            return Told(None, None, ())
        turns = [
            Said(row["speaker"] or "", row["origin"], row["text"])
            for row in rows
            if row["kind"] == "turn"
        ]
        return Told(rows[0]["least"], rows[0]["until"], turns)
