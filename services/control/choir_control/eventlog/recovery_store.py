"""Read what a starting agent needs of a log, its own or its predecessor's: the newest events (spec 13.2).

Called by `sessions.hello`.
"""

from choir_common.postgres.pool import Database
from choir_common.wire.events import Event
from choir_control.eventlog.store import EventStore

# an agent writes a snapshot every few hundred events; a log without one is short, or an old one
MOST = 4_000

_LANDMARKS = """
SELECT (SELECT min(consumed_rev) FROM choir_control.inbox
        WHERE session_id = $1 AND answered_rev IS NULL AND closed_at IS NULL) AS turn,
       snapshot.rev AS snapshot, snapshot.payload ->> 'window_from' AS window_from
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT rev, payload FROM choir_control.session_events
    WHERE session_id = $1 AND type = 'snapshot' AND rev <= $2 ORDER BY rev DESC LIMIT 1
) AS snapshot ON true
"""


class RecoveryStore:
    """The ends of logs."""

    def __init__(self, database: Database, events: EventStore) -> None:
        self._database = database
        self._events = events

    async def tail(self, session_id: str, head_rev: int) -> list[Event]:
        """Return the newest events up to the head: what the newest snapshot and an open turn need."""
        row = await self._database.fetchrow(_LANDMARKS, session_id, head_rev)
        snapshot, turn = (row["snapshot"], row["turn"]) if row else (None, None)
        first = 1
        if row is not None and snapshot is not None:
            first = _window(row["window_from"], snapshot)
        if turn is not None:
            first = min(first, int(turn))
        if head_rev - first >= MOST:
            # bounded whatever a log says, but the snapshot itself is always among them
            first = min(head_rev - MOST + 1, snapshot or head_rev)
        return await self._events.read(session_id, first - 1, max(1, head_rev - first + 1))


def _window(window_from: str | None, snapshot: int) -> int:
    """Return where the window of a snapshot begins; a snapshot that does not say begins with itself."""
    plausible = window_from is not None and window_from.isdigit() and len(window_from) < 18
    return max(1, min(int(window_from or 0), snapshot)) if plausible else snapshot
