"""How far each session has come on its way into memory: rows of `choir_memory.sessions`.

Called inside a transaction as the service itself. Who holds a session's row is its only writer.
"""

from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Connection

_BEGIN = """
INSERT INTO choir_memory.sessions (agent_id, session_id, started_at) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING
"""
_HOLD = """
SELECT started_at, ended_at, through_rev, unsettled, topics, promoted_at, erased_at
FROM choir_memory.sessions WHERE agent_id = $1 AND session_id = $2 FOR UPDATE
"""


@dataclass(frozen=True, slots=True)
class SessionState:
    """How far a session has come; `unsettled` is `chunks`' JSON."""

    started_at: datetime
    ended_at: datetime | None
    through_rev: int
    unsettled: str
    promoted: bool
    erased: bool


class SessionStore:
    """The sessions of one agent, on a connection as the service."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def hold(self, session_id: str, started_at: datetime) -> SessionState:
        """Return the session's state, made if it is new, locked for the rest of the transaction."""
        await self._held.execute(_BEGIN, self._agent_id, session_id, started_at)
        row = await self._held.fetchrow(_HOLD, self._agent_id, session_id)
        assert row is not None
        return SessionState(
            row["started_at"],
            row["ended_at"],
            row["through_rev"],
            row["unsettled"],
            row["promoted_at"] is not None,
            row["erased_at"] is not None,
        )
