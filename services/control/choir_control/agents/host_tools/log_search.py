"""The tool choir.log.search: events of the agent's session that it no longer has in memory.

The stored events of one session are searched by terms or by hash.
"""

from typing import assert_never

from choir_common.eventlog.chain import event_from_row
from choir_common.lanes import edge_lane
from choir_common.postgres.pool import Database
from choir_common.wire.events import Event
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.rpc import LogMatches, LogSearch
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.log.leases.store import Lease

MAX_BYTES = 2_000_000
"""Size of all payloads in one result; the best event is returned whatever its size."""


def _is_visible(dm: str, lane: str) -> str:
    """Return the SQL condition for events of a conversation and its core jobs; for all if `dm` is null."""
    return (
        f"({dm}::text IS NULL OR lane = {lane} OR (starts_with(lane, 'core:') "  # noqa: S608 our own SQL
        "AND COALESCE(payload ->> 'job_id', payload ->> 'turn_id') IN ("
        "SELECT started.payload ->> 'job_id' FROM choir_control.session_events AS started "
        f"WHERE started.session_id = $1 AND started.type = 'core_started' "
        f"AND started.payload ->> 'dm' = {dm})))"
    )


_BY_WORDS = f"""
WITH scored AS (
    SELECT rev, octet_length(payload::text) AS size, (
        SELECT count(*) FROM unnest($2::text[]) AS word
        WHERE position(word IN lower(payload::text)) > 0) AS score
    FROM choir_control.session_events
    WHERE session_id = $1 AND rev < $3 AND type = ANY($4::text[]) AND {_is_visible("$7", "$8")}
), best AS (
    SELECT rev, score, sum(size) OVER (ORDER BY score DESC, rev DESC) - size AS before
    FROM scored WHERE score > 0 ORDER BY score DESC, rev DESC LIMIT $5
)
SELECT e.rev, lane, type, payload, at, hash_prev, hash
FROM best JOIN choir_control.session_events AS e ON e.session_id = $1 AND e.rev = best.rev
WHERE best.before < $6 ORDER BY best.score DESC, e.rev DESC
"""  # noqa: S608 our own SQL
_BY_HASH = f"""
SELECT rev, lane, type, payload, at, hash_prev, hash FROM choir_control.session_events
WHERE session_id = $1 AND starts_with(hash, $2) AND rev < $3 AND type = ANY($4::text[])
  AND {_is_visible("$6", "$7")}
ORDER BY rev LIMIT $5
"""  # noqa: S608 our own SQL


class LogSearchStore:
    """Search in the table `session_events`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(
        self, session_id: str, request: LogSearch, place: tuple[str, str] | None
    ) -> list[Event]:
        """Return the matching events, best first; `place` is a conversation and its lane, None: all."""
        dm, lane = place or (None, None)
        types, before, limit = list(request.types), request.before_rev, request.limit
        match request.mode:
            case "keyword":
                terms = list(request.terms)
                rows = await self._database.fetch(
                    _BY_WORDS, session_id, terms, before, types, limit, MAX_BYTES, dm, lane
                )
            case "hash":
                # A hash prefix matches one event, or a few that are small together.
                few = min(limit, 5)
                rows = await self._database.fetch(
                    _BY_HASH, session_id, request.terms[0], before, types, few, dm, lane
                )
            case _:
                assert_never(request.mode)
        return [event_from_row(session_id, row) for row in rows]


class LogSearchTool:
    """Search in the log of the calling session, never of another one, and in the conversation of the call."""

    def __init__(self, store: LogSearchStore) -> None:
        self._store = store

    async def search(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return the matching events, best first."""
        request = parse_tool_input(LogSearch, arguments)
        is_shared = bool(lease.further_dms or lease.former_dms)
        place = (lease.dm, edge_lane(lease.dm, lease.bindings.dm)) if is_shared else None
        return LogMatches(events=tuple(await self._store.search(lease.session_id, request, place)))
