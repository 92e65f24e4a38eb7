"""The table `signals`."""

from dataclasses import dataclass
from datetime import timedelta

from choir_common.postgres.pool import Database
from choir_common.wire.signals import SignalBody


@dataclass(frozen=True, slots=True)
class StoredSignal:
    """A signal as it is sent: number, kind and JSON text."""

    seq: int
    kind: str
    body: str
    to_fetch: str | None = None
    """The message with files that must be fetched before the agent receives it."""


class SignalStore:
    """Store of the table `signals`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def send(self, session_id: str, body: SignalBody) -> int | None:
        """Queue a signal for one session; return its number, or None if the session is over."""
        seq = await self._database.fetchval(
            """
            INSERT INTO choir_control.signals (session_id, body)
            SELECT session_id, $2::json FROM choir_control.sessions
            WHERE session_id = $1 AND status IN ('starting', 'active', 'stopping', 'crashed')
            RETURNING seq
            """,
            session_id,
            body.model_dump_json(),
        )
        return None if seq is None else int(seq)

    async def send_replacing(self, session_id: str, body: SignalBody) -> int | None:
        """Queue a signal that replaces earlier ones of its kind for this session.

        No event in the log refers to such a signal, so nothing else would mark the earlier ones as
        done.
        """
        seq = await self._database.fetchval(
            """
            WITH older AS (
                UPDATE choir_control.signals SET done_at = clock_timestamp()
                WHERE session_id = $1 AND done_at IS NULL AND body ->> 'kind' = $3
            )
            INSERT INTO choir_control.signals (session_id, body)
            SELECT session_id, $2::json FROM choir_control.sessions
            WHERE session_id = $1 AND status IN ('starting', 'active', 'stopping', 'crashed')
            RETURNING seq
            """,
            session_id,
            body.model_dump_json(),
            body.kind,
        )
        return None if seq is None else int(seq)

    async def prune(self, older_than: timedelta, limit: int) -> int:
        """Delete up to `limit` signals that were done that long ago; return how many.

        Signals that a session did not take up before it ended are deleted as well.
        """
        done = await self._database.fetchval(
            """
            WITH gone AS (
                DELETE FROM choir_control.signals WHERE seq IN (
                    SELECT s.seq FROM choir_control.signals AS s
                    LEFT JOIN choir_control.sessions AS x ON x.session_id = s.session_id
                    WHERE s.done_at < clock_timestamp() - $1::interval
                       OR (s.done_at IS NULL AND x.ended_at < clock_timestamp() - $1::interval)
                    ORDER BY s.seq LIMIT $2
                ) RETURNING 1
            )
            SELECT count(*) FROM gone
            """,
            older_than,
            limit,
        )
        return int(done)

    async def list_pending(
        self, session_id: str, dm: str, after: int, limit: int
    ) -> list[StoredSignal]:
        """Return the pending signals of this session and its conversations, in order."""
        rows = await self._database.fetch(
            """
            SELECT seq, body ->> 'kind' AS kind, body, (
                SELECT inbox_id FROM choir_control.inbox AS i
                WHERE i.inbox_id = all_queues.inbox_id AND i.attachments IS NOT NULL
                  AND i.fetched_at IS NULL
            ) AS to_fetch FROM (
                (SELECT seq, body, inbox_id FROM choir_control.signals
                 WHERE done_at IS NULL AND dm = $2 AND seq > $3 ORDER BY seq LIMIT $4)
                UNION ALL
                (SELECT seq, body, inbox_id FROM choir_control.session_conversations AS c
                 JOIN choir_control.signals AS s USING (dm)
                 WHERE c.session_id = $1 AND s.done_at IS NULL AND seq > $3 ORDER BY seq LIMIT $4)
                UNION ALL
                (SELECT seq, body, inbox_id FROM choir_control.signals
                 WHERE done_at IS NULL AND session_id = $1 AND seq > $3 ORDER BY seq LIMIT $4)
            ) AS all_queues ORDER BY seq LIMIT $4
            """,
            session_id,
            dm,
            after,
            limit,
        )
        return [StoredSignal(row["seq"], row["kind"], row["body"], row["to_fetch"]) for row in rows]

    async def read_newest_seq(self) -> int:
        """Return the highest signal number, or 0."""
        newest = await self._database.fetchval(
            "SELECT COALESCE(max(seq), 0) FROM choir_control.signals"
        )
        return int(newest)
