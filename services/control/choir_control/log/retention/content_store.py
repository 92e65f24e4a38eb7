"""Erasure of an ended session from control's tables, except for its row and its hashes."""

from dataclasses import dataclass

from choir_common.eventlog.chain import LogHead
from choir_common.postgres.pool import Database, Record
from choir_control.log.leases.conversations import answered_conversations_sql
from choir_control.log.retention.log_store import ExpiredLog
from choir_control.workspaces.spool import parse_files

# A session first copies what it continues, within seconds. It has done so when it has other events than
# those of its beginning, or none that is new.
HAS_COPIED_SQL = """(EXISTS (
        SELECT FROM choir_control.session_events AS copied
        WHERE copied.session_id = later.session_id
          AND copied.type NOT IN ('session_started', 'carried_event'))
    OR (later.head_rev > 0 AND NOT EXISTS (
        SELECT FROM choir_control.session_events AS copied
        WHERE copied.session_id = later.session_id
          AND copied.stored_at > clock_timestamp() - interval '1 minute')))"""
"""SQL condition: the session `later` has copied what it continues."""
_RECEIVED = """
SELECT f.workspace, f.path FROM choir_control.received_files AS f
JOIN choir_control.inbox AS i USING (inbox_id) WHERE i.session_id = $1
"""
# Complete outputs of tools, which the agent stored as files.
_ARTIFACTS = """
SELECT DISTINCT e.payload ->> 'artifact_ref' AS path FROM choir_control.session_events AS e
WHERE e.session_id = $1 AND e.type = 'tool_result_committed'
  AND e.payload ->> 'artifact_ref' IS NOT NULL
"""
_SENT = """
SELECT files FROM choir_control.outbox
WHERE session_id = $1 AND files IS NOT NULL AND status IN ('delivered', 'undeliverable')
"""
_DROP_RECEIVED = """
DELETE FROM choir_control.received_files AS f USING choir_control.inbox AS i
WHERE f.inbox_id = i.inbox_id AND i.session_id = $1
"""
_SIGNALS = """
DELETE FROM choir_control.signals AS s WHERE s.session_id = $1
    OR s.inbox_id IN (SELECT inbox_id FROM choir_control.inbox WHERE session_id = $1)
"""
# A change that was approved is carried out first. Of a session that was not incognito, a request whose change
# is in effect stays, so that it can be rolled back.
_APPROVALS = """
DELETE FROM choir_control.pending_approvals AS a USING choir_control.sessions AS s
WHERE a.session_id = $1 AND s.session_id = a.session_id
  AND NOT EXISTS (SELECT FROM choir_control.approval_effects AS e
                  WHERE e.approval_id = a.approval_id
                    AND (e.stage IN ('waiting', 'applying', 'reverting')
                         OR (e.stage = 'applied' AND s.memory_mode <> 'incognito')))
"""
_GRANTS = "DELETE FROM choir_control.grants WHERE session_id = $1 AND scope <> 'always'"
_DMS = answered_conversations_sql("s")


def _was_served(dm: str, at: str) -> str:
    """Return the SQL condition that session `s` had a conversation at a time."""
    return (
        f"CASE WHEN {dm} = s.dm THEN {at} BETWEEN s.started_at AND s.ended_at ELSE EXISTS ("
        "SELECT FROM choir_control.session_conversations AS c "
        f"WHERE c.session_id = s.session_id AND c.dm = {dm} "
        f"AND {at} BETWEEN c.bound_at AND COALESCE(c.unbound_at, s.ended_at)) END"
    )


# All messages of the conversations while the session had them: notices name no session.
_OUTBOX = f"""
DELETE FROM choir_control.outbox AS o USING choir_control.sessions AS s
WHERE s.session_id = $1 AND o.dm = ANY({_DMS}) AND o.status IN ('delivered', 'undeliverable')
  AND (o.session_id = $1 OR (o.session_id IS NULL AND {_was_served("o.dm", "o.at")}))
  AND NOT EXISTS (SELECT FROM choir_control.outbox AS edit WHERE edit.edits = o.outbox_id)
  AND EXISTS (SELECT FROM choir_control.outbox AS newer
              WHERE newer.dm = o.dm AND newer.outbox_id > o.outbox_id)
"""  # noqa: S608 our own SQL
# Clients resume after the newest row, and edits name the row they change: these lose only their text.
_REST_OF_OUTBOX = f"""
UPDATE choir_control.outbox AS o
SET text = $2, files = NULL, buttons = NULL, detail = ''
FROM choir_control.sessions AS s
WHERE s.session_id = $1 AND o.dm = ANY({_DMS}) AND o.status IN ('delivered', 'undeliverable')
  AND (o.session_id = $1 OR (o.session_id IS NULL AND {_was_served("o.dm", "o.at")}))
"""  # noqa: S608 our own SQL
_INBOX = "DELETE FROM choir_control.inbox WHERE session_id = $1"
# Typed commands have no session. The rows stay, so that a repeated delivery is still recognised.
_COMMANDS = f"""
UPDATE choir_control.inbox AS i SET text = '' FROM choir_control.sessions AS s
WHERE s.session_id = $1 AND i.dm = ANY({_DMS}) AND i.session_id IS NULL AND i.closed_at IS NOT NULL
  AND {_was_served("i.dm", "i.received_at")}
"""  # noqa: S608 our own SQL
_FINISH = """
WITH rest AS (
    SELECT 1 FROM choir_control.outbox
    WHERE session_id = $1 AND status NOT IN ('delivered', 'undeliverable')
    UNION ALL SELECT 1 FROM choir_control.pending_approvals AS a JOIN choir_control.sessions AS s
        USING (session_id) WHERE a.session_id = $1 AND s.memory_mode = 'incognito'
), erased AS (
    UPDATE choir_control.erased_logs SET finished_at = clock_timestamp()
    WHERE session_id = $1 AND NOT EXISTS (SELECT FROM rest)
), carried_out AS (
    UPDATE choir_control.session_resets SET finished_at = clock_timestamp()
    WHERE session_id = $1 AND NOT EXISTS (SELECT FROM rest)
)
UPDATE choir_control.sessions
SET archived_at = coalesce(archived_at, clock_timestamp()),
    forgotten_at = CASE WHEN memory_mode = 'incognito' THEN clock_timestamp() ELSE forgotten_at END
WHERE session_id = $1 AND NOT EXISTS (SELECT FROM rest) RETURNING true
"""
ERASED_TEXT = "(erased)"


@dataclass(frozen=True, slots=True)
class ErasableSession:
    """An ended session whose content is to be erased."""

    log: ExpiredLog
    workspace: str


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Files that Choir made for a session: paths by workspace, and hashes of events in the spool."""

    staged: tuple[tuple[str, str], ...]
    spooled: tuple[str, ...]


class SessionContentStore:
    """Store operations that erase the content of ended sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_files(self, session: ErasableSession) -> SessionFiles:
        """Return the files of a session; call it before its events are deleted."""
        session_id = session.log.session_id
        received = await self._database.fetch(_RECEIVED, session_id)
        artifacts = await self._database.fetch(_ARTIFACTS, session_id)
        rows = await self._database.fetch(_SENT, session_id)
        sent = [file for row in rows for file in parse_files(row["files"])]
        return SessionFiles(
            staged=(
                *((row["workspace"], row["path"]) for row in received),
                *((session.workspace, row["path"]) for row in artifacts),
                *((session.workspace, file.path) for file in sent),
            ),
            spooled=tuple(dict.fromkeys(file.event_hash for file in sent)),
        )

    async def erase_rows(self, session_id: str) -> bool:
        """Erase everything but the log; return False if a delivery or a decision is still pending."""
        async with self._database.transaction() as connection:
            for sql in (_DROP_RECEIVED, _SIGNALS, _APPROVALS, _GRANTS):
                await connection.execute(sql, session_id)
            await connection.execute(_OUTBOX, session_id)
            await connection.execute(_REST_OF_OUTBOX, session_id, ERASED_TEXT)
            for sql in (_INBOX, _COMMANDS):
                await connection.execute(sql, session_id)
            return bool(await connection.fetchval(_FINISH, session_id))


def erasable_from_record(record: Record) -> ErasableSession:
    """Convert a record with the columns of a due session."""
    head = LogHead(record["head_rev"], record["head_hash"])
    log = ExpiredLog(record["session_id"], record["agent_id"], head, record["has_hashes"])
    return ErasableSession(log, record["workspace"])
