"""Store of the table `inbox`: one statement stores a message with its signal."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from choir_common.hosts import find_hosts
from choir_common.postgres.pool import Database
from choir_common.tracing import current_traceparent
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import MAX_QUOTE, InboundMessage
from choir_common.wire.schedules import WakeUp
from choir_common.wire.signals import MessageSender, SignalBody, UserMessageSignal
from choir_control.log.leases.conversations import session_of_sql

_ATTACHMENTS: TypeAdapter[tuple[Attachment, ...]] = TypeAdapter(tuple[Attachment, ...])

MAX_HOSTS = 100
"""Hosts of one message that count as named by its user."""

_STORE_MESSAGE = f"""
WITH added AS (
    INSERT INTO choir_control.inbox
        (inbox_id, gateway, update_id, dm, text, sent_at, attachments, message_id, edits, reply_to,
         hosts)
    VALUES ($1, $2, $3, $4, $5, $6, $8::json, $9, $10, $11, $12)
    ON CONFLICT (gateway, update_id) DO NOTHING
    RETURNING inbox_id, dm
), offered AS (
    INSERT INTO choir_control.signals (dm, body, inbox_id)
    SELECT dm, $7::json, inbox_id FROM added
)
SELECT (SELECT inbox_id FROM added) AS added,
       (SELECT inbox_id FROM choir_control.inbox WHERE gateway = $2 AND update_id = $3) AS known,
       (SELECT text FROM choir_control.inbox WHERE gateway = $2 AND update_id = $3) AS known_text,
       holder.agent_id, holder.status
FROM (SELECT 1) AS one
LEFT JOIN choir_control.sessions AS holder ON holder.session_id = {session_of_sql("$4")}
    AND NOT (holder.status = 'crashed' AND holder.end_reason IS NOT NULL)  -- a suspended session
"""  # noqa: S608 our own SQL

# The row of a command is closed at once, so that no agent takes it up. It exists to detect
# repetitions.
_STORE_COMMAND = f"""
WITH holder AS (
    SELECT session_id, agent_id, status FROM choir_control.sessions
    WHERE session_id = {session_of_sql("$4")}
      AND NOT (status = 'crashed' AND end_reason IS NOT NULL)  -- a suspended session
), added AS (
    INSERT INTO choir_control.inbox (inbox_id, gateway, update_id, dm, text, sent_at, closed_at)
    VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
    ON CONFLICT (gateway, update_id) DO NOTHING
    RETURNING inbox_id
), told AS (
    INSERT INTO choir_control.signals (session_id, body, inbox_id)
    SELECT holder.session_id, $7::json, added.inbox_id FROM holder, added
    WHERE holder.status <> 'stopping'
)
SELECT (SELECT inbox_id FROM added) AS added,
       (SELECT inbox_id FROM choir_control.inbox WHERE gateway = $2 AND update_id = $3) AS known,
       (SELECT text FROM choir_control.inbox WHERE gateway = $2 AND update_id = $3) AS known_text,
       holder.agent_id, holder.status
FROM (SELECT 1) AS one LEFT JOIN holder ON true
"""  # noqa: S608 our own SQL

# For a command that is executed elsewhere; the row exists to detect repetitions.
_STORE_HANDLED_COMMAND = f"""
WITH added AS (
    INSERT INTO choir_control.inbox (inbox_id, gateway, update_id, dm, text, sent_at, closed_at)
    VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())
    ON CONFLICT (gateway, update_id) DO NOTHING
    RETURNING inbox_id
)
SELECT (SELECT inbox_id FROM added) AS added,
       (SELECT inbox_id FROM choir_control.inbox WHERE gateway = $2 AND update_id = $3) AS known,
       (SELECT text FROM choir_control.inbox WHERE gateway = $2 AND update_id = $3) AS known_text,
       holder.agent_id, holder.status
FROM (SELECT 1) AS one
LEFT JOIN choir_control.sessions AS holder ON holder.session_id = {session_of_sql("$4")}
    AND NOT (holder.status = 'crashed' AND holder.end_reason IS NOT NULL)  -- a suspended session
"""  # noqa: S608 our own SQL


@dataclass(frozen=True, slots=True)
class BoundSession:
    """The live session that a DM is bound to."""

    agent_id: str
    session_id: str
    status: str
    home_dm: str


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A durable message, and the live session of its DM, if any."""

    inbox_id: str
    duplicate: bool
    agent_id: str | None
    session_status: str | None
    earlier_text: str | None = None
    """For a duplicate: the text that was stored first under this key."""


class InboxStore:
    """Store of the table `inbox`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def store_message(
        self,
        inbox_id: str,
        message: InboundMessage,
        sender: MessageSender | None = None,
        wake_up: WakeUp | None = None,
    ) -> StoredMessage | None:
        """Store a message once; return None if another call is storing it at this moment: retry then."""
        # Everybody in a group may name hosts; that allows nothing. Nor does a text that no person wrote.
        names_hosts = wake_up is None and not (sender is not None and sender.is_outsider)
        signal = UserMessageSignal(
            inbox_id=inbox_id,
            dm=message.dm,
            text=message.text,
            edits=message.edits,
            corrects=await self._read_earlier_text(message),
            reply_to=message.reply_to.text if message.reply_to else "",
            sent_at=message.sent_at,
            traceparent=current_traceparent(),
            sender=sender,
            wake_up=wake_up,
        )
        return await self._store(
            _STORE_MESSAGE,
            inbox_id,
            message,
            signal.model_dump_json(),
            _ATTACHMENTS.dump_json(message.attachments).decode() if message.attachments else None,
            message.edits or message.message_id,
            message.edits,
            message.reply_to.message_id if message.reply_to else None,
            find_hosts(message.text)[:MAX_HOSTS] if names_hosts else [],
        )

    async def _read_earlier_text(self, message: InboundMessage) -> str:
        """Return the latest earlier text of the message that this one corrects."""
        if message.edits is None:
            return ""
        text = await self._database.fetchval(
            "SELECT text FROM choir_control.inbox WHERE dm = $1 AND message_id = $2 "
            "AND NOT (gateway = $3 AND update_id = $4) ORDER BY seq DESC LIMIT 1",
            message.dm,
            message.edits,
            message.gateway,
            message.update_id,
        )
        return str(text or "")[:MAX_QUOTE]

    async def store_command(
        self, inbox_id: str, message: InboundMessage, body: SignalBody
    ) -> StoredMessage | None:
        """Store a command once, with a signal to the session of the DM; None as for `store_message`."""
        return await self._store(_STORE_COMMAND, inbox_id, message, body.model_dump_json())

    async def store_handled_command(
        self, inbox_id: str, message: InboundMessage
    ) -> StoredMessage | None:
        """Store once a command that is executed elsewhere; None as for `store_message`."""
        return await self._store(_STORE_HANDLED_COMMAND, inbox_id, message)

    async def _store(
        self, sql: str, inbox_id: str, message: InboundMessage, *more: str | Sequence[str] | None
    ) -> StoredMessage | None:
        row = await self._database.fetchrow(
            sql,
            inbox_id,
            message.gateway,
            message.update_id,
            message.dm,
            message.text,
            message.sent_at,
            *more,
        )
        if row is None or (row["added"] is None and row["known"] is None):
            return None
        return StoredMessage(
            inbox_id=row["added"] or row["known"],
            duplicate=row["added"] is None,
            agent_id=row["agent_id"],
            session_status=row["status"],
            earlier_text=row["known_text"] if row["added"] is None else None,
        )

    async def find_bound_session(self, dm: str) -> BoundSession | None:
        """Return the live session of a DM, or None."""
        row = await self._database.fetchrow(
            f"""
            SELECT agent_id, session_id, status, dm AS home_dm FROM choir_control.sessions
            WHERE session_id = {session_of_sql("$1")}
              AND NOT (status = 'crashed' AND end_reason IS NOT NULL)  -- a suspended session
            """,  # noqa: S608 our own SQL
            dm,
        )
        return BoundSession(**row) if row else None

    async def find_last_agent(self, dm: str) -> str | None:
        """Return the agent whose session was bound to a DM last, or None."""
        agent_id = await self._database.fetchval(
            "SELECT agent_id FROM choir_control.sessions WHERE dm = $1 OR session_id IN ("
            "SELECT session_id FROM choir_control.session_conversations WHERE dm = $1) "
            "ORDER BY started_at DESC LIMIT 1",
            dm,
        )
        return None if agent_id is None else str(agent_id)

    async def count_waiting(self) -> dict[str, int]:
        """Return the number of messages that no session has taken up, by DM."""
        rows = await self._database.fetch(
            """
            SELECT dm, count(*) AS n FROM choir_control.inbox
            WHERE session_id IS NULL AND closed_at IS NULL GROUP BY dm
            """
        )
        return {row["dm"]: row["n"] for row in rows}
