"""Store of the table `sessions`: create, read and update sessions.

Every change of an epoch is one transaction together with its leases. Ending a session is in `closing_store`.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from pydantic import TypeAdapter

from choir_common.errors import Conflict
from choir_common.eventlog.chain import LogHead
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.events import GENESIS
from choir_common.wire.memory_modes import DEFAULT_MODE, MemoryMode
from choir_common.wire.operator import SessionStatus
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.sessions.record import CONTINUED_REASONS, SessionRow
from choir_control.images.builder import SessionImage
from choir_control.log.eventlog.store import IS_REHEARSAL_SQL
from choir_control.log.leases.authentication import LeaseToken
from choir_control.log.leases.conversations import (
    conversations_sql,
    gateway_sql,
    lease_conversations,
)
from choir_control.log.leases.store import COLUMNS as BOUND
from choir_control.log.leases.store import acquire_leases, current_bindings, initial_bindings

_IMAGE = TypeAdapter(SessionImage)
COLUMNS = (
    f"session_id, agent_id, status, epoch, head_rev, head_hash, continues, {BOUND}, "
    "gateway, resumes, idle_resumes, started_at, ended_at, end_reason, last_heartbeat_at, image, rehearsal, "
    "memory_mode"
)
_LIVE = "status IN ('starting', 'active', 'stopping', 'crashed')"
# A suspended session is stored as a crashed one with the reason of its stop. It has no lease, and its agent
# can have no other session until it has ended.
_SUSPENDED = "status = 'crashed' AND end_reason IS NOT NULL"
# A session with no events except control's own has nothing to carry over to the next one.
_HAS_AGENT_EVENTS = """EXISTS (SELECT 1 FROM choir_control.session_events AS said
    WHERE said.session_id = s.session_id AND said.lane <> 'control')"""
# A session that was reset is continued although its log is erased: not the one before it.
_WAS_RESET = """EXISTS (SELECT 1 FROM choir_control.session_resets AS r
    WHERE r.session_id = s.session_id AND s.head_rev > 0)"""
# A new session of mode $12 in the DM $7 may show events of session `s`. An incognito conversation is over
# unless its newest session ended by a restart ($13) and its erasure has not begun.
_IS_CONTINUED = f"""(s.memory_mode <> 'incognito' OR (
    $12 = 'incognito' AND s.dm = $7 AND s.end_reason = ANY ($13::text[])
    AND ({_WAS_RESET} OR NOT EXISTS (
        SELECT FROM choir_control.erased_logs AS e WHERE e.session_id = s.session_id))
    AND NOT EXISTS (SELECT FROM choir_control.sessions AS later WHERE later.agent_id = s.agent_id
                    AND later.started_at > s.started_at AND later.head_rev > 0)))"""  # noqa: S608 our own SQL
_LIVE_NOT_SUSPENDED = f"{_LIVE} AND NOT ({_SUSPENDED})"
_CREATE = f"""
INSERT INTO choir_control.sessions
    (session_id, agent_id, status, epoch, token_sha256, head_hash, workspace,
     llm, dm, gateway, resource_bindings, rehearsal, image, memory_mode, continues)
VALUES ($1, $2, 'starting', 1, $3, $4, $5, $6, $7, $8, $9::jsonb, $10, $11::jsonb, $12,
    (SELECT session_id FROM choir_control.sessions AS s
     WHERE agent_id = $2 AND status IN ('stopped', 'abandoned') AND ({_HAS_AGENT_EVENTS} OR {_WAS_RESET})
       AND {IS_REHEARSAL_SQL} = $10 AND {_IS_CONTINUED}
     ORDER BY started_at DESC LIMIT 1))
ON CONFLICT (agent_id) WHERE {_LIVE} DO NOTHING
RETURNING {COLUMNS}
"""  # noqa: S608 our own column names


def session_from_record(record: Record) -> SessionRow:
    """Convert a record of COLUMNS to a session."""
    return SessionRow(
        session_id=record["session_id"],
        agent_id=record["agent_id"],
        status=_status_of(record),
        epoch=record["epoch"],
        head=LogHead(record["head_rev"], record["head_hash"]),
        continues=record["continues"],
        bindings=current_bindings(record),
        initial_bindings=initial_bindings(record),
        settings_rev=record["settings_rev"],
        gateway=record["gateway"],
        crashes=record["resumes"],
        idle_crashes=record["idle_resumes"],
        started_at=record["started_at"],
        ended_at=record["ended_at"],
        end_reason=record["end_reason"],
        last_heartbeat_at=record["last_heartbeat_at"],
        image=None if record["image"] is None else _IMAGE.validate_json(record["image"]),
        rehearsal=record["rehearsal"],
        memory_mode=record["memory_mode"],
    )


def _status_of(record: Record) -> SessionStatus:
    status: SessionStatus = record["status"]
    return "suspended" if status == "crashed" and record["end_reason"] is not None else status


class ChatTranslator(Protocol):
    """The configuration, as seen by code that tells several conversations the same."""

    def translate(self, dm: str, text: str) -> str:
        """Return a message in the language of a conversation."""
        ...


class SessionStore:
    """Store of the table `sessions`, which updates `session_epochs` and `leases` in the same transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        session_id: str,
        agent_id: str,
        bindings: ResourceBindings,
        resources: Sequence[str],
        gateway: str,
        token: LeaseToken,
        image: SessionImage,
        *,
        rehearsal: bool = False,
        memory_mode: MemoryMode = DEFAULT_MODE,
    ) -> SessionRow:
        """Create a session at epoch 1 with all its leases, atomically.

        It continues the agent's newest ended session of the same kind: a rehearsal continues only a
        rehearsal, and other sessions never continue one. An incognito session is only continued by another
        incognito one in the same DM, after a restart.

        Raises Conflict when the agent has an unfinished session or a resource is leased.
        """
        async with self._database.transaction() as connection:
            record = await connection.fetchrow(
                _CREATE,
                session_id,
                agent_id,
                token.digest,
                GENESIS,
                bindings.workspace,
                bindings.llm,
                bindings.dm,
                gateway,
                bindings.model_dump_json(),
                rehearsal,
                _IMAGE.dump_json(image).decode(),
                memory_mode,
                CONTINUED_REASONS,
            )
            if record is None:
                raise Conflict(
                    _("{agent_id} already has a session that is not over.").format(
                        agent_id=agent_id
                    )
                )
            await _insert_epoch(connection, session_id, 1, token)
            await acquire_leases(connection, session_id, agent_id, resources)
        return session_from_record(record)

    async def begin_epoch(
        self,
        crashed: SessionRow,
        resources: Sequence[str],
        gateway: str,
        token: LeaseToken,
        image: SessionImage,
    ) -> SessionRow | None:
        """Begin the next epoch of a crashed or suspended session with `image`; None if it changed meanwhile.

        Raises Conflict when one of its resources is leased to another agent.
        """
        async with self._database.transaction() as connection:
            record = await connection.fetchrow(
                f"""
                UPDATE choir_control.sessions SET
                    status = 'starting', epoch = epoch + 1, token_sha256 = $3, gateway = $4,
                    image = $5::jsonb, resume_at = NULL, end_reason = NULL,
                    epoch_started_at = clock_timestamp(),
                    last_heartbeat_at = clock_timestamp()
                WHERE session_id = $1 AND epoch = $2 AND status = 'crashed'
                  AND end_reason IS NOT DISTINCT FROM $6  -- not suspended meanwhile
                RETURNING {COLUMNS}
                """,  # noqa: S608 our own column names
                crashed.session_id,
                crashed.epoch,
                token.digest,
                gateway,
                _IMAGE.dump_json(image).decode(),
                crashed.end_reason,
            )
            if record is None:
                return None
            row = session_from_record(record)
            await _insert_epoch(connection, row.session_id, row.epoch, token)
            await acquire_leases(connection, row.session_id, row.agent_id, resources)
            await lease_conversations(connection, row.session_id, row.agent_id)
        return row

    async def mark_crashed(
        self,
        session: SessionRow,
        *,
        counts: bool,
        reset_counters: bool = False,
        resume_in: timedelta | None,
    ) -> bool:
        """End an epoch: revoke its token, free its leases, and schedule the resume after `resume_in`.

        With `resume_in` None the session is only resumed by a start. `counts` adds this crash to the
        counters, and `afresh` resets them first. Returns False if the epoch was over already.
        """
        is_ended = await self._database.fetchval(
            """
            WITH ended AS (
                UPDATE choir_control.sessions SET
                    status = 'crashed', token_sha256 = NULL,
                    resumes = CASE WHEN $5 THEN 0 ELSE resumes END + $3::boolean::integer,
                    idle_resumes = CASE WHEN $5 THEN 0 ELSE idle_resumes END + $3::boolean::integer,
                    resume_at = clock_timestamp() + $4::interval
                WHERE session_id = $1 AND epoch = $2 AND status IN ('starting', 'active')
                RETURNING session_id
            ), freed AS (
                DELETE FROM choir_control.leases AS l USING ended
                WHERE l.session_id = ended.session_id
            )
            SELECT true FROM ended
            """,
            session.session_id,
            session.epoch,
            counts,
            resume_in,
            reset_counters,
        )
        return bool(is_ended)

    async def suspend(self, session_id: str, reason: str, notices: Mapping[str, str]) -> bool:
        """End an epoch but not its session: the next start of the agent resumes its open work.

        `notices` are the texts for its conversations, stored in the same transaction.
        """
        async with self._database.transaction() as connection:
            # `say` locks a conversation before its session, so the update must not come first
            await _lock_conversations(connection, list(notices))
            row = await connection.fetchrow(
                """
                WITH ended AS (
                    UPDATE choir_control.sessions SET
                        status = 'crashed', end_reason = $2, token_sha256 = NULL, resume_at = NULL,
                        blocked = NULL
                    WHERE session_id = $1 AND status IN ('starting', 'active', 'stopping', 'crashed')
                    RETURNING session_id
                ), freed AS (
                    DELETE FROM choir_control.leases AS l USING ended
                    WHERE l.session_id = ended.session_id
                ), obeyed AS (
                    UPDATE choir_control.signals AS s SET done_at = clock_timestamp() FROM ended
                    WHERE s.session_id = ended.session_id AND s.done_at IS NULL
                      AND s.body ->> 'kind' = 'shutdown'
                )
                SELECT session_id FROM ended
                """,
                session_id,
                reason.replace("\x00", "")[:1000],
            )
            if row is not None:
                await _say(connection, session_id, notices)
        return row is not None

    async def set_image(self, session_id: str, image: SessionImage) -> bool:
        """Change the image of a suspended session; return False if it is not suspended any more."""
        updated = await self._database.fetchval(
            "UPDATE choir_control.sessions SET image = $2::jsonb "
            "WHERE session_id = $1 AND status = 'crashed' AND end_reason IS NOT NULL RETURNING true",
            session_id,
            _IMAGE.dump_json(image).decode(),
        )
        return bool(updated)

    async def reset_crash_counters(self, session_id: str) -> None:
        """Reset the crash counters of a crashed session, because a user asked for another attempt."""
        await self._database.execute(
            "UPDATE choir_control.sessions SET resumes = 0, idle_resumes = 0, blocked = NULL "
            "WHERE session_id = $1 AND status = 'crashed'",
            session_id,
        )

    async def delay_resume(self, session_id: str, by: timedelta) -> None:
        """Delay the next resume of a crashed session by `by`."""
        await self._database.execute(
            "UPDATE choir_control.sessions SET resume_at = clock_timestamp() + $2::interval "
            "WHERE session_id = $1 AND status = 'crashed' AND end_reason IS NULL",
            session_id,
            by,
        )

    async def postpone_and_notify(
        self,
        session_id: str,
        why: str,
        text: str,
        by: timedelta | None,
        translator: ChatTranslator,
    ) -> list[str]:
        """Postpone a crashed session whose agent cannot be started, and notify its users once.

        Returns the DMs that `text` was queued for; none if the users were notified before.
        """
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(
                f"""
                UPDATE choir_control.sessions AS s
                SET resume_at = clock_timestamp() + $2::interval, blocked = $3
                FROM (SELECT session_id, blocked FROM choir_control.sessions
                      WHERE session_id = $1 FOR UPDATE) AS was
                WHERE s.session_id = was.session_id AND s.status = 'crashed'
                  AND s.end_reason IS NULL
                RETURNING was.blocked, {conversations_sql("s")} AS dms
                """,  # noqa: S608 our own SQL
                session_id,
                by,
                why.replace("\x00", "")[:1000],
            )
            if row is None or row["blocked"] is not None:
                return []
            dms = list(row["dms"])
            notices = {dm: translator.translate(dm, text) for dm in dms}
            await _say(connection, session_id, notices)
        return dms

    async def mark_connected(self, session_id: str, epoch: int) -> SessionRow | None:
        """Mark the agent of this epoch as connected; return None if the epoch is over."""
        return await self._one(
            f"""
            UPDATE choir_control.sessions SET
                status = CASE status WHEN 'starting' THEN 'active' ELSE status END, blocked = NULL,
                last_heartbeat_at = clock_timestamp()
            WHERE session_id = $1 AND epoch = $2 AND status IN ('starting', 'active', 'stopping')
            RETURNING {COLUMNS}
            """,  # noqa: S608 our own column names
            session_id,
            epoch,
        )

    async def mark_stopping(self, session_id: str, reason: str) -> SessionRow | None:
        """Mark a session as stopping for `reason`; return None if it is not running."""
        return await self._one(
            f"""
            UPDATE choir_control.sessions SET status = 'stopping', end_reason = $2
            WHERE session_id = $1 AND status IN ('starting', 'active', 'stopping')
            RETURNING {COLUMNS}
            """,  # noqa: S608 our own column names
            session_id,
            reason[:1000],
        )

    async def set_override(self, session_id: str, field: str, value: str) -> SessionRow | None:
        """Override a binding of a session until it ends; return None if it has ended or is stopping."""
        return await self._one(
            f"""
            UPDATE choir_control.sessions SET
                overrides = CASE WHEN resource_bindings ->> $2 = $3 THEN overrides - $2
                            ELSE overrides || jsonb_build_object($2::text, $3::text) END,
                settings_rev = settings_rev + 1
            WHERE session_id = $1 AND status IN ('starting', 'active', 'crashed')
            RETURNING {COLUMNS}
            """,  # noqa: S608 our own column names
            session_id,
            field,
            value,
        )

    async def get(self, session_id: str) -> SessionRow | None:
        """Return a session, or None."""
        return await self._one(
            f"SELECT {COLUMNS} FROM choir_control.sessions WHERE session_id = $1",  # noqa: S608
            session_id,
        )

    async def find_live(self, agent_id: str) -> SessionRow | None:
        """Return the agent's session that has neither ended nor been suspended."""
        return await self._one(
            f"SELECT {COLUMNS} FROM choir_control.sessions WHERE agent_id = $1 AND {_LIVE_NOT_SUSPENDED}",  # noqa: S608
            agent_id,
        )

    async def find_unfinished_in(self, dm: str) -> SessionRow | None:
        """Return the unfinished session of a conversation, also a suspended one; the newest of several."""
        return await self._one(
            f"SELECT {COLUMNS} FROM choir_control.sessions WHERE {_LIVE} AND (dm = $1 OR session_id IN ("  # noqa: S608
            "SELECT c.session_id FROM choir_control.session_conversations AS c "
            "WHERE c.dm = $1 AND c.unbound_at IS NULL)) "
            f"ORDER BY {_SUSPENDED}, started_at DESC LIMIT 1",
            dm,
        )

    async def read_previous_mode(self, session: SessionRow) -> MemoryMode:
        """Return the memory mode of the session before in the same conversation."""
        mode: MemoryMode | None = await self._database.fetchval(
            "SELECT memory_mode FROM choir_control.sessions "
            "WHERE dm = $1 AND agent_id = $2 AND started_at < $3 ORDER BY started_at DESC LIMIT 1",
            session.bindings.dm,
            session.agent_id,
            session.started_at,
        )
        return mode or DEFAULT_MODE

    async def list_live(self) -> list[SessionRow]:
        """Return all sessions that have neither ended nor been suspended."""
        return await self._many(
            f"SELECT {COLUMNS} FROM choir_control.sessions WHERE {_LIVE_NOT_SUSPENDED}"  # noqa: S608
        )

    async def find_unfinished(self, agent_id: str) -> SessionRow | None:
        """Return the agent's session that has not ended, including a suspended one."""
        return await self._one(
            f"SELECT {COLUMNS} FROM choir_control.sessions WHERE agent_id = $1 AND {_LIVE}",  # noqa: S608
            agent_id,
        )

    async def list_suspended(self) -> list[SessionRow]:
        """Return the sessions that were stopped with open work."""
        return await self._many(
            f"SELECT {COLUMNS} FROM choir_control.sessions WHERE {_SUSPENDED}"  # noqa: S608
        )

    async def list_due_for_resume(self) -> list[SessionRow]:
        """Return the crashed sessions whose resume time has passed, by the database's clock."""
        return await self._many(
            f"SELECT {COLUMNS} FROM choir_control.sessions "  # noqa: S608
            # a time further ahead than any delay in use means that the clock was set back
            "WHERE status = 'crashed' AND end_reason IS NULL AND (resume_at <= clock_timestamp() "
            "OR resume_at > clock_timestamp() + interval '1 minute')"
        )

    async def list_page(
        self, agent_id: str | None, before: str | None, limit: int
    ) -> list[SessionRow]:
        """Return a page of sessions, newest first, starting after the session `before`."""
        return await self._many(
            f"""
            SELECT {COLUMNS} FROM choir_control.sessions
            WHERE ($1::text IS NULL OR agent_id = $1)
              AND ($2::text IS NULL OR (started_at, session_id) < (
                    SELECT started_at, session_id FROM choir_control.sessions
                    WHERE session_id = $2))
            ORDER BY started_at DESC, session_id DESC LIMIT $3
            """,  # noqa: S608 our own column names
            agent_id,
            before,
            limit,
        )

    async def _one(self, sql: str, *args: object) -> SessionRow | None:
        record = await self._database.fetchrow(sql, *args)
        return session_from_record(record) if record else None

    async def _many(self, sql: str, *args: object) -> list[SessionRow]:
        return [session_from_record(record) for record in await self._database.fetch(sql, *args)]


async def _lock_conversations(connection: Connection, dms: list[str]) -> None:
    """Take the locks of `say` in the order of the names."""
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('words in ' || dm, 0)) "
        "FROM (SELECT dm FROM unnest($1::text[]) AS dm ORDER BY dm) AS sorted",
        dms,
    )


async def _say(connection: Connection, session_id: str, notices: Mapping[str, str]) -> None:
    """Store notices for conversations of a session."""
    await connection.execute(
        f"SELECT choir_control.say(n.dm, {gateway_sql('s', 'n.dm')}, n.text) "  # noqa: S608 our own SQL
        "FROM choir_control.sessions AS s, unnest($2::text[], $3::text[]) AS n(dm, text) "
        "WHERE s.session_id = $1",
        session_id,
        list(notices),
        list(notices.values()),
    )


async def _insert_epoch(
    connection: Connection,
    session_id: str,
    epoch: int,
    token: LeaseToken,
) -> None:
    await connection.execute(
        "INSERT INTO choir_control.session_epochs (session_id, epoch, token_sha256) "
        "VALUES ($1, $2, $3)",
        session_id,
        epoch,
        token.digest,
    )
