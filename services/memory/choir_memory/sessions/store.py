"""Archive progress of each session: rows of `choir_memory.sessions`, under the service's role.

The transaction that locks a session's row is its only writer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import orjson

from choir_common.postgres.pool import Connection

_BEGIN = """
INSERT INTO choir_memory.sessions (agent_id, session_id, started_at) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING
"""
_HOLD = """
SELECT started_at, ended_at, through_rev, unsettled::text AS unsettled, summary, topics::text AS topics,
       promoted_at, erased_at
FROM choir_memory.sessions WHERE agent_id = $1 AND session_id = $2 FOR UPDATE
"""
_ADVANCE = """
UPDATE choir_memory.sessions SET through_rev = $3, unsettled = $4::jsonb
WHERE agent_id = $1 AND session_id = $2
"""
_SUM_UP = """
UPDATE choir_memory.sessions SET summary = $3, topics = $4::jsonb
WHERE agent_id = $1 AND session_id = $2
"""
_END = """
UPDATE choir_memory.sessions SET ended_at = $3 WHERE agent_id = $1 AND session_id = $2
"""
# the oldest session beyond the limit
_TO_PROMOTE = """
SELECT session_id FROM (
    SELECT session_id, started_at FROM choir_memory.sessions
    WHERE agent_id = $1 AND ended_at IS NOT NULL AND promoted_at IS NULL AND erased_at IS NULL
    ORDER BY started_at DESC, session_id DESC OFFSET $2
) AS old ORDER BY started_at, session_id LIMIT 1
"""
_PROMOTED = """
UPDATE choir_memory.sessions SET promoted_at = clock_timestamp() WHERE agent_id = $1 AND session_id = $2
"""
_ERASED = """
UPDATE choir_memory.sessions
SET erased_at = clock_timestamp(), unsettled = '{}', summary = '', topics = '[]'
WHERE agent_id = $1 AND session_id = $2
"""


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A part of a session's summary; the title may be empty."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """The agent's own summary of one further conversation of a session."""

    dm: str
    summary: str
    topics: tuple[StoredTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionState:
    """Progress of a session; `unsettled` is the JSON of `chunks`."""

    started_at: datetime
    ended_at: datetime | None
    through_rev: int
    unsettled: str
    summary: str
    topics: tuple[StoredTopic, ...]
    further: tuple[StoredConversation, ...]
    promoted: bool
    erased: bool


class SessionStore:
    """Sessions of one agent, on a connection under the service's role."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def get_or_create(self, session_id: str, started_at: datetime) -> SessionState:
        """Return the session's state, created if new, locked for the rest of the transaction."""
        await self._connection.execute(_BEGIN, self._agent_id, session_id, started_at)
        state = await self.get(session_id)
        assert state is not None
        return state

    async def get(self, session_id: str) -> SessionState | None:
        """Return and lock the state of a session; None if it is unknown."""
        row = await self._connection.fetchrow(_HOLD, self._agent_id, session_id)
        if row is None:
            return None
        parts = orjson.loads(row["topics"])
        return SessionState(
            row["started_at"],
            row["ended_at"],
            row["through_rev"],
            row["unsettled"],
            row["summary"],
            _parse_topics(part for part in parts if "dm" not in part),
            tuple(
                StoredConversation(part["dm"], part["summary"], _parse_topics(part["topics"]))
                for part in parts
                if "dm" in part
            ),
            row["promoted_at"] is not None,
            row["erased_at"] is not None,
        )

    async def advance(self, session_id: str, through_rev: int, unsettled: str) -> None:
        """Store that events up to `through_rev` are in memory, or in `unsettled`."""
        await self._connection.execute(_ADVANCE, self._agent_id, session_id, through_rev, unsettled)

    async def store_summary(
        self,
        session_id: str,
        summary: str,
        topics: Sequence[StoredTopic],
        further: Sequence[StoredConversation] = (),
    ) -> None:
        """Store the agent's own summaries until the session is promoted."""
        # Without a title and text of its own, a further conversation is no topic of the home conversation.
        parts = [*topics, *({"title": "", "text": "", **asdict(it)} for it in further)]
        await self._connection.execute(
            _SUM_UP, self._agent_id, session_id, summary, orjson.dumps(parts).decode()
        )

    async def mark_ended(self, session_id: str, ended_at: datetime) -> None:
        """Mark the session as ended."""
        await self._connection.execute(_END, self._agent_id, session_id, ended_at)

    async def find_oldest_beyond(self, newest: int) -> str | None:
        """Return the oldest session to promote so that `newest` remain, or None."""
        session_id = await self._connection.fetchval(_TO_PROMOTE, self._agent_id, newest)
        return None if session_id is None else str(session_id)

    async def mark_promoted(self, session_id: str) -> None:
        """Mark the session as promoted."""
        await self._connection.execute(_PROMOTED, self._agent_id, session_id)

    async def mark_erased(self, session_id: str) -> None:
        """Mark the session as erased and clear its other fields."""
        await self._connection.execute(_ERASED, self._agent_id, session_id)


def _parse_topics(parts: Iterable[Mapping[str, str]]) -> tuple[StoredTopic, ...]:
    return tuple(StoredTopic(part["title"], part["text"]) for part in parts)
