"""Content of a session for its summary. Called by `promote` and `layers.episodes`, under the agent's
role."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Connection
from choir_memory.schema.naming import qualified
from choir_memory.sessions.sources import Source, terms_of

# The least trust, and the first turns of users and agent; 200 are more than a selection can use.
_TOLD = """
SELECT min(trust) OVER () AS least, max(coalesce(ended_at, happened_at)) OVER () AS until,
       kind, speaker, origin, left(text, 400) AS text, happened_at
FROM {schema}.memory_documents WHERE session_id = $1 AND tier <> 'long_term_summary'
ORDER BY (kind <> 'turn'), chunk_index LIMIT 200
"""


@dataclass(frozen=True, slots=True)
class Said:
    """The beginning of a turn's text."""

    speaker: str
    origin: str
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """Overview of a session."""

    least_trust: int | None
    until: datetime | None
    turns: Sequence[Said]


# For each unit, those of the given terms that it contains.
_SOURCES = """
SELECT trust, ARRAY(SELECT term FROM unnest(tsvector_to_array(tsv)) AS term WHERE term = ANY($2::text[]))
       AS terms
FROM {schema}.memory_documents WHERE session_id = $1 AND tier <> 'long_term_summary'
"""


class DetailStore:
    """Read access to the details of one agent's sessions."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def sources(self, session_id: str, texts: Collection[str]) -> list[Source]:
        """Return the units of a session, each with the terms of these texts that it contains."""
        rows = await self._held.fetch(
            qualified(_SOURCES, self._agent_id), session_id, terms_of(texts)
        )
        return [Source(row["trust"], frozenset(row["terms"])) for row in rows if row["terms"]]

    async def told(self, session_id: str) -> Told:
        """Return the overview of a session with its first turns."""
        rows = await self._held.fetch(qualified(_TOLD, self._agent_id), session_id)
        if not rows:
            return Told(None, None, ())
        turns = [
            Said(row["speaker"] or "", row["origin"], row["text"])
            for row in rows
            if row["kind"] == "turn"
        ]
        return Told(rows[0]["least"], rows[0]["until"], turns)
