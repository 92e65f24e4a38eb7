"""What became of a user's message: its state, the keys of repeated requests, and the tokens of its answer."""

from dataclasses import dataclass
from datetime import timedelta

from choir_common.postgres.pool import Database


@dataclass(frozen=True, slots=True)
class MessageState:
    """The state of a message."""

    previous_outbox_id: int
    """The last message to the user before it, after which its answer is found."""
    earlier_open: frozenset[str]
    """The messages of the conversation that were sent before and have no answer yet."""
    is_taken: bool
    """Whether an agent has taken it up."""
    is_closed: bool
    """Whether it is closed and has no answer."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of the model calls of a turn."""

    prompt: int
    completion: int
    cached: int
    reasoning: int


class AnswerStore:
    """Store with reads of the tables `inbox`, `outbox` and `ledger` about one message."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_update(self, dm: str, prefix: str, within: timedelta) -> str | None:
        """Return the newest id of an update of a conversation that begins with `prefix`, or None."""
        update_id = await self._database.fetchval(
            """
            SELECT update_id FROM choir_control.inbox
            WHERE dm = $1 AND received_at > now() - $3::interval AND starts_with(update_id, $2)
            ORDER BY seq DESC LIMIT 1
            """,
            dm,
            prefix,
            within,
        )
        return None if update_id is None else str(update_id)

    async def find_conversation(self, inbox_id: str) -> str | None:
        """Return the conversation of a message; None if there is no such message."""
        dm = await self._database.fetchval(
            "SELECT dm FROM choir_control.inbox WHERE inbox_id = $1", inbox_id
        )
        return None if dm is None else str(dm)

    async def read_state(self, inbox_id: str) -> MessageState | None:
        """Return the state of a message; None if there is none."""
        row = await self._database.fetchrow(
            """
            SELECT i.session_id IS NOT NULL AS is_taken,
                i.closed_at IS NOT NULL AND i.answered_rev IS NULL AND NOT EXISTS (
                    SELECT FROM choir_control.outbox AS o
                    WHERE o.dm = i.dm AND o.at >= i.received_at AND o.answers = i.inbox_id
                      AND o.kind NOT IN ('notice', 'message')) AS is_closed,
                COALESCE((SELECT o.outbox_id FROM choir_control.outbox AS o
                          WHERE o.dm = i.dm AND o.at < i.received_at
                          ORDER BY o.at DESC, o.outbox_id DESC LIMIT 1), 0) AS previous_outbox_id,
                ARRAY(SELECT e.inbox_id FROM choir_control.inbox AS e
                      WHERE e.dm = i.dm AND e.received_at <= i.received_at AND e.seq < i.seq
                        AND e.answered_rev IS NULL AND e.closed_at IS NULL) AS earlier_open
            FROM choir_control.inbox AS i WHERE i.inbox_id = $1
            """,
            inbox_id,
        )
        if row is None:
            return None
        return MessageState(**{**dict(row), "earlier_open": frozenset(row["earlier_open"])})

    async def read_usage(self, inbox_id: str) -> TokenUsage | None:
        """Return the tokens of the turn that answered a message; None if they are not known."""
        row = await self._database.fetchrow(
            """
            SELECT sum(l.prompt_tokens)::bigint AS prompt, sum(l.completion_tokens)::bigint AS completion,
                sum(l.cached_tokens)::bigint AS cached, sum(l.reasoning_tokens)::bigint AS reasoning
            FROM choir_control.inbox AS i
            JOIN choir_control.session_events AS reply
              ON reply.session_id = i.session_id AND reply.rev = i.answered_rev
            JOIN choir_control.session_events AS e
              ON e.session_id = i.session_id AND e.lane = reply.lane
             AND e.rev >= i.consumed_rev AND e.rev <= i.answered_rev
            JOIN choir_control.ledger AS l
              ON l.entry_id = e.session_id || ':' || e.rev AND l.kind = 'chat'
            WHERE i.inbox_id = $1
            """,
            inbox_id,
        )
        return None if row is None or row["prompt"] is None else TokenUsage(**row)
