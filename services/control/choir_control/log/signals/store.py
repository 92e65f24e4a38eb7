"""The table `signals`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.signals import SignalBody
from choir_control.log.leases.store import Lease

# The conversation of a signal `s`; one that names none is about the home conversation, the parameter $2.
_CONVERSATION = """CASE WHEN s.dm IS NOT NULL THEN s.dm
    WHEN s.body ->> 'kind' IN ('inject', 'cancel', 'compact') THEN COALESCE(NULLIF(s.body ->> 'dm', ''), $2)
END"""
_HAS_FILES_TO_FETCH = "i.attachments IS NOT NULL AND i.fetched_at IS NULL"
_RENUMBER = f"""
WITH waiting AS (
    DELETE FROM choir_control.signals AS s
    WHERE s.done_at IS NULL AND s.seq >= $4 AND (s.delayed OR s.seq > $5) AND (s.dm = $3 OR s.session_id = $1)
      AND {_CONVERSATION} = $3
    RETURNING seq, dm, session_id, body, inbox_id, created_at
)
INSERT INTO choir_control.signals (dm, session_id, body, inbox_id, created_at)
SELECT dm, session_id, body, inbox_id, created_at FROM waiting ORDER BY seq
"""  # noqa: S608 - constants only

_HAS_DELAYED = f"""
SELECT EXISTS (
    SELECT FROM choir_control.signals AS s
    WHERE s.done_at IS NULL AND s.delayed AND s.seq >= $4 AND (s.dm = $3 OR s.session_id = $1)
      AND {_CONVERSATION} = $3
)
"""  # noqa: S608 - constants only

# Messages whose files are gone leave what waited for them behind: nothing else would give it new numbers.
_ORPHANED = f"""
SELECT about AS dm, min(seq) AS first FROM (
    SELECT s.seq, {_CONVERSATION} AS about, {_HAS_FILES_TO_FETCH} AS to_fetch
    FROM choir_control.signals AS s LEFT JOIN choir_control.inbox AS i USING (inbox_id)
    WHERE s.done_at IS NULL AND s.delayed AND s.seq <= $3
      AND (s.session_id = $1 OR s.dm = $2 OR s.dm IN (
        SELECT c.dm FROM choir_control.session_conversations AS c
        WHERE c.session_id = $1 AND c.unbound_at IS NULL))
) AS passed GROUP BY about HAVING NOT (array_agg(to_fetch ORDER BY seq))[1] ORDER BY first
"""  # noqa: S608 - constants only


async def renumber_signals(
    connection: Connection, lease: Lease, dm: str, first: int, *, sent_through: int = 0
) -> None:
    """Give the pending signals of a conversation from number `first` on new numbers, in the same order.

    Those up to `sent_through` that were not delayed were sent, and stay. The caller has the lock of the
    session's signals.
    """
    await connection.execute(
        _RENUMBER, lease.session_id, lease.bindings.dm, dm, first, sent_through
    )


@dataclass(frozen=True, slots=True)
class StoredSignal:
    """A signal as it is sent: number, kind and JSON text."""

    seq: int
    kind: str
    body: str
    dm: str | None = None
    """The conversation that it is about, if it is about one."""
    to_fetch: str | None = None
    """The message with files that must be fetched before the agent receives it."""
    is_delayed: bool = False
    """Whether it waits for the files of a message of its conversation; it gets a new number then."""
    was_delayed: bool = False
    """Whether the table says that a stream has passed by it."""


@dataclass(frozen=True, slots=True)
class OrphanedSignals:
    """Signals of a conversation that waited for the files of a message that was erased."""

    dm: str
    first: int


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
            f"""
            SELECT seq, kind, body, about, delayed, (
                SELECT inbox_id FROM choir_control.inbox AS i
                WHERE i.inbox_id = pending.inbox_id AND {_HAS_FILES_TO_FETCH}
            ) AS to_fetch, EXISTS (
                SELECT FROM choir_control.signals AS before JOIN choir_control.inbox AS i USING (inbox_id)
                WHERE before.done_at IS NULL AND before.dm = about AND before.seq <= pending.seq
                  AND {_HAS_FILES_TO_FETCH}
            ) AS is_delayed FROM (SELECT seq, body ->> 'kind' AS kind, body, inbox_id, delayed,
                {_CONVERSATION} AS about FROM (
                (SELECT seq, dm, body, inbox_id, delayed FROM choir_control.signals
                 WHERE done_at IS NULL AND dm = $2 AND seq > $3 ORDER BY seq LIMIT $4)
                UNION ALL
                (SELECT seq, dm, body, inbox_id, delayed FROM choir_control.session_conversations AS c
                 JOIN choir_control.signals AS s USING (dm)
                 WHERE c.session_id = $1 AND c.unbound_at IS NULL AND s.done_at IS NULL AND seq > $3
                 ORDER BY seq LIMIT $4)
                UNION ALL
                (SELECT seq, dm, body, inbox_id, delayed FROM choir_control.signals
                 WHERE done_at IS NULL AND session_id = $1 AND seq > $3 ORDER BY seq LIMIT $4)
            ) AS s) AS pending ORDER BY seq LIMIT $4
            """,  # noqa: S608 - constants only
            session_id,
            dm,
            after,
            limit,
        )
        return [_signal(row) for row in rows]

    async def list_overtaken(self, session_id: str, dm: str, through: int) -> list[StoredSignal]:
        """Return the messages up to a number whose files are not fetched yet, in order."""
        rows = await self._database.fetch(
            f"""
            SELECT s.seq, s.body ->> 'kind' AS kind, s.body, s.dm AS about, s.inbox_id AS to_fetch,
                true AS is_delayed, s.delayed
            FROM choir_control.signals AS s JOIN choir_control.inbox AS i USING (inbox_id)
            WHERE s.done_at IS NULL AND s.seq <= $3 AND {_HAS_FILES_TO_FETCH}
              AND (s.dm = $2 OR s.dm IN (
                SELECT c.dm FROM choir_control.session_conversations AS c
                WHERE c.session_id = $1 AND c.unbound_at IS NULL))
            ORDER BY s.seq
            """,  # noqa: S608 - constants only
            session_id,
            dm,
            through,
        )
        return [_signal(row) for row in rows]

    async def list_orphaned(self, session_id: str, dm: str, through: int) -> list[OrphanedSignals]:
        """Return what a stream has passed by up to a number, and what no message with files precedes."""
        rows = await self._database.fetch(_ORPHANED, session_id, dm, through)
        return [OrphanedSignals(row["dm"], row["first"]) for row in rows]

    async def mark_delayed(self, page: Sequence[StoredSignal]) -> None:
        """Store which signals a stream passes by, before it sends what follows them."""
        changed = [it for it in page if it.is_delayed != it.was_delayed]
        if changed:
            await self._database.execute(
                "UPDATE choir_control.signals SET delayed = (seq = ANY($2)) WHERE seq = ANY($1)",
                [signal.seq for signal in changed],
                [signal.seq for signal in changed if signal.is_delayed],
            )

    async def renumber(self, lease: Lease, dm: str, first: int, *, sent_through: int = 0) -> None:
        """Renumber the signals of a conversation that wait for a message; see `renumber_signals`.

        If none is delayed, another stream has done it, and may have sent them with their new numbers.
        """
        async with self._database.transaction() as connection:
            names = (lease.session_id, lease.bindings.dm, dm, first)
            if not await connection.fetchval(_HAS_DELAYED, *names):
                return
            await renumber_signals(connection, lease, dm, first, sent_through=sent_through)

    async def read_newest_seq(self) -> int:
        """Return the highest signal number, or 0."""
        newest = await self._database.fetchval(
            "SELECT COALESCE(max(seq), 0) FROM choir_control.signals"
        )
        return int(newest)


def _signal(row: Record) -> StoredSignal:
    return StoredSignal(
        seq=row["seq"],
        kind=row["kind"],
        body=row["body"],
        dm=row["about"],
        to_fetch=row["to_fetch"],
        is_delayed=row["is_delayed"],
        was_delayed=row["delayed"],
    )
