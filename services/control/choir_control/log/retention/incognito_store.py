"""Ended incognito sessions that are to be erased."""

from collections.abc import Sequence
from datetime import timedelta

from choir_common.postgres.pool import Database
from choir_control.log.retention.content_store import (
    HAS_COPIED_SQL,
    ErasableSession,
    erasable_from_record,
)

MAX_SESSIONS = 100
CONTINUED_WITHIN = timedelta(hours=1)
"""How long a restarted session waits for its successor before it is erased all the same."""

# After a restart the next incognito session first copies the newest events; after a reset less, or nothing.
_DUE = f"""
SELECT s.session_id, s.agent_id, s.workspace, s.head_rev, s.head_hash,
       e.session_id IS NOT NULL AS has_hashes
FROM choir_control.sessions AS s
LEFT JOIN choir_control.erased_logs AS e USING (session_id)
LEFT JOIN choir_control.session_resets AS r USING (session_id)
WHERE s.memory_mode = 'incognito' AND s.ended_at IS NOT NULL AND s.archived_at IS NULL
  AND (s.end_reason IS NULL OR s.end_reason <> ALL ($1::text[])
       OR r.carries = 'nothing' OR s.ended_at < clock_timestamp() - $2::interval
       OR EXISTS (
          SELECT FROM choir_control.sessions AS later
          WHERE later.agent_id = s.agent_id AND later.started_at > s.started_at
            AND (later.memory_mode <> 'incognito' OR later.ended_at IS NOT NULL
                 OR (r.carries = 'summary' AND later.head_rev > 0) OR {HAS_COPIED_SQL})))
ORDER BY s.started_at LIMIT $3
"""  # noqa: S608 a condition of ours


class IncognitoStore:
    """Store that lists ended incognito sessions."""

    def __init__(self, database: Database, restart_reasons: Sequence[str]) -> None:
        """`restart_reasons` are the end reasons after which the next session continues the conversation."""
        self._database = database
        self._restart_reasons = list(restart_reasons)

    async def due(self) -> list[ErasableSession]:
        """Return the ended sessions that are to be erased now, oldest first."""
        rows = await self._database.fetch(
            _DUE, self._restart_reasons, CONTINUED_WITHIN, MAX_SESSIONS
        )
        return [erasable_from_record(row) for row in rows]
