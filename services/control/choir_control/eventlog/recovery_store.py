"""Read what a starting agent needs of a log: its end, or what an earlier session left (spec 13.2).

Called by `sessions.hello`.
"""

import orjson
from pydantic import ValidationError

from choir_common.postgres.pool import Database
from choir_common.wire.events import Event, LaneSummary, ReferenceSummary
from choir_common.wire.json import JsonObject
from choir_control.eventlog.store import EventStore

# an agent writes a snapshot every few hundred events; a log without one is short, or an old one
MOST = 4_000
EDGE = "edge"

_LANDMARKS = """
SELECT (SELECT min(consumed_rev) FROM choir_control.inbox
        WHERE session_id = $1 AND answered_rev IS NULL AND closed_at IS NULL) AS turn,
       snapshot.rev AS snapshot, snapshot.payload ->> 'window_from' AS window_from
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT rev, payload FROM choir_control.session_events
    WHERE session_id = $1 AND type = 'snapshot' AND rev <= $2 ORDER BY rev DESC LIMIT 1
) AS snapshot ON true
"""

_LEGACY = """
SELECT (SELECT payload ->> 'summary' FROM choir_control.session_events
        WHERE session_id = $1 AND type = 'session_stopped'
        ORDER BY rev DESC LIMIT 1) AS farewell,
       (SELECT payload -> 'summary' FROM choir_control.session_events
        WHERE session_id = $1 AND type = 'memory_compacted' AND payload ->> 'target' = $2
        ORDER BY rev DESC LIMIT 1) AS compacted,
       (SELECT payload -> 'seed' FROM choir_control.session_events
        WHERE session_id = $1 AND rev = 1 AND type = 'session_started') AS seed
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

    async def legacy(self, session_id: str) -> JsonObject | None:
        """Return what an ended session hands on to the next: its summaries; none if it made none."""
        row = await self._database.fetchrow(_LEGACY, session_id, EDGE)
        if row is None:
            return None
        summaries = _summaries(row["compacted"], row["seed"])
        if not summaries and not row["farewell"]:
            return None
        return {"summaries": summaries, "summary": row["farewell"]}


def _window(window_from: str | None, snapshot: int) -> int:
    """Return where the window of a snapshot begins; a snapshot that does not say begins with itself."""
    plausible = window_from is not None and window_from.isdigit() and len(window_from) < 18
    return max(1, min(int(window_from or 0), snapshot)) if plausible else snapshot


def _summaries(compacted: str | None, seed: str | None) -> list[JsonObject]:
    """Return the edge lane's newest summary: its own, else the one it was seeded with."""
    try:
        if compacted is not None:
            summary = ReferenceSummary.model_validate(orjson.loads(compacted), strict=False)
            # revisions are the old log's, so none of the new one's is covered
            return [LaneSummary(lane=EDGE, summary=summary).model_dump(mode="json")]
        given = [LaneSummary.model_validate(s, strict=False) for s in orjson.loads(seed or "[]")]
    except (ValidationError, orjson.JSONDecodeError):
        return []  # what an older or damaged log says is not worth refusing a start
    return [s.model_dump(mode="json") for s in given if s.lane == EDGE]
