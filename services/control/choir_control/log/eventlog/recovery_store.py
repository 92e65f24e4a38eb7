"""The newest events of a log, as a starting agent needs them: of its own session or the previous one.

See docs/design/log-and-recovery.md.
"""

from choir_common.postgres.pool import Database
from choir_common.wire.events import Event
from choir_control.log.eventlog.store import EventStore

# An agent writes a snapshot every few hundred events. A log without one is short or old.
MAX_EVENTS = 4_000

_LANDMARKS = """
SELECT (SELECT min(consumed_rev) FROM choir_control.inbox
        WHERE session_id = $1 AND answered_rev IS NULL AND closed_at IS NULL) AS turn,
       snapshot.rev AS snapshot, snapshot.payload ->> 'window_from' AS window_from
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT rev, payload FROM choir_control.session_events
    WHERE session_id = $1 AND type = 'snapshot' AND rev <= $2 ORDER BY rev DESC LIMIT 1
) AS snapshot ON true
"""


class LogTailReader:
    """Reader of the end of a log."""

    def __init__(self, database: Database, events: EventStore) -> None:
        self._database = database
        self._events = events

    async def tail(self, session_id: str, head_rev: int) -> list[Event]:
        """Return the newest events up to the head: from the newest snapshot's window, or an open turn."""
        row = await self._database.fetchrow(_LANDMARKS, session_id, head_rev)
        snapshot, turn = (row["snapshot"], row["turn"]) if row else (None, None)
        first = 1
        if row is not None and snapshot is not None:
            first = _window(row["window_from"], snapshot)
        if turn is not None:
            first = min(first, int(turn))
        if head_rev - first >= MAX_EVENTS:
            # Limit the number of events whatever the log contains, but always include the snapshot.
            first = min(head_rev - MAX_EVENTS + 1, snapshot or head_rev)
        return await self._events.read(session_id, first - 1, max(1, head_rev - first + 1))


def _window(window_from: str | None, snapshot: int) -> int:
    """Return the first revision of a snapshot's window; the snapshot itself if it names none."""
    plausible = window_from is not None and window_from.isdigit() and len(window_from) < 18
    return max(1, min(int(window_from or 0), snapshot)) if plausible else snapshot
