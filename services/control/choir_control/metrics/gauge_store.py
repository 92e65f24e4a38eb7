"""Queries for the gauges: pending messages, deliveries, approvals, sessions. Called by `meter`."""

from choir_common.postgres.pool import Database
from choir_control.metrics.meter import Waiting

_SESSIONS = """
SELECT CASE WHEN status = 'crashed' AND end_reason IS NOT NULL THEN 'suspended' ELSE status END AS status,
       count(*) AS n
FROM choir_control.sessions
WHERE status IN ('starting', 'active', 'stopping', 'crashed') GROUP BY 1
"""
_WAITING = """
SELECT
    (SELECT count(*) FROM choir_control.outbox WHERE status IN ('waiting', 'sending')) AS outbox,
    (SELECT count(*) FROM choir_control.sessions
        WHERE archived_at IS NULL AND ended_at IS NOT NULL) AS unarchived,
    (SELECT count(*) FROM choir_control.pending_approvals WHERE status = 'pending') AS approvals,
    count(*) AS inbox,
    coalesce(extract(epoch FROM now() - min(received_at)), 0)::float8 AS age
FROM choir_control.inbox WHERE answered_rev IS NULL AND closed_at IS NULL
"""


class GaugeStore:
    """Reader of the number of pending rows in control's tables."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self) -> Waiting:
        """Return all numbers; raises Unavailable."""
        sessions = await self._database.fetch(_SESSIONS)
        row = await self._database.fetchrow(_WAITING)
        assert row is not None
        return Waiting(
            sessions={each["status"]: each["n"] for each in sessions},
            outbox=row["outbox"],
            inbox=row["inbox"],
            inbox_age_s=row["age"],
            approvals=row["approvals"],
            unarchived=row["unarchived"],
        )
