"""Store of the table `agent_questions`."""

from dataclasses import asdict
from datetime import datetime

from choir_common.postgres.pool import Database, Record
from choir_control.conversations.agent_questions.records import (
    UPDATE_PREFIX,
    QuestionProgress,
    QuestionState,
    StoredQuestion,
    UnsettledQuestion,
)

_COLUMNS = (
    "question_id, asking_agent, asking_session, call_id, answering_agent, dm, gateway, askers, "
    "first_question, asked_at, deadline_at, state"
)
_MESSAGE = f"""
LEFT JOIN choir_control.inbox AS i
    ON i.gateway = q.gateway AND i.update_id = '{UPDATE_PREFIX}' || q.question_id
"""
_PROGRESS = f"""
SELECT q.state, i.inbox_id IS NOT NULL AS is_stored, i.session_id,
    i.closed_at IS NOT NULL AND i.answered_rev IS NULL AS is_closed,
    i.answered_rev IS NOT NULL AS is_answered,
    CASE WHEN e.type = 'reply' THEN e.payload::text END AS reply
FROM choir_control.agent_questions AS q {_MESSAGE}
LEFT JOIN choir_control.session_events AS e ON e.session_id = i.session_id AND e.rev = i.answered_rev
WHERE q.question_id = $1
"""  # noqa: S608 - constants
# The question that the agent works on in a conversation; jobs may go on after the newest one was answered.
_CURRENT = f"""
SELECT {_COLUMNS} FROM choir_control.agent_questions AS q
LEFT JOIN LATERAL (
    SELECT m.session_id, m.answered_rev FROM choir_control.inbox AS m
    WHERE m.gateway = q.gateway AND m.update_id = '{UPDATE_PREFIX}' || q.question_id
) AS i ON true
WHERE q.dm = $1 AND i.session_id IS NOT NULL
ORDER BY i.answered_rev IS NULL DESC, q.asked_at DESC LIMIT 1
"""  # noqa: S608 - constants
# Nothing is left to do for a question once its message has been answered or closed.
_SETTLE = f"""
UPDATE choir_control.agent_questions AS q SET turn_ended = true,
    state = CASE WHEN q.state <> 'open' THEN q.state WHEN i.answered_rev IS NULL THEN 'failed'
        ELSE 'answered' END,
    ended_at = COALESCE(q.ended_at, $1)
FROM choir_control.inbox AS i
WHERE NOT q.turn_ended AND (q.state <> 'open' OR q.deadline_at < $1)
    AND i.gateway = q.gateway AND i.update_id = '{UPDATE_PREFIX}' || q.question_id
    AND (i.answered_rev IS NOT NULL OR i.closed_at IS NOT NULL)
"""  # noqa: S608 - a constant
_EXPIRE = """
UPDATE choir_control.agent_questions SET state = 'expired', ended_at = $1
WHERE state = 'open' AND NOT turn_ended AND deadline_at < $1
"""
_UNSETTLED = f"""
SELECT q.question_id, q.dm, q.state, q.ended_at, i.inbox_id IS NOT NULL AS is_stored, i.session_id
FROM choir_control.agent_questions AS q {_MESSAGE}
WHERE NOT q.turn_ended ORDER BY q.asked_at LIMIT 1000
"""  # noqa: S608 - a constant


class QuestionStore:
    """Store of questions between agents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, session_id: str, call_id: str) -> StoredQuestion | None:
        """Return the question of a call, or None."""
        row = await self._database.fetchrow(
            f"SELECT {_COLUMNS} FROM choir_control.agent_questions "  # noqa: S608 - constants
            "WHERE asking_session = $1 AND call_id = $2",
            session_id,
            call_id,
        )
        return _question(row) if row else None

    async def find_current(self, dm: str) -> StoredQuestion | None:
        """Return the question that is worked on in a conversation, or was last; None if there is none."""
        row = await self._database.fetchrow(_CURRENT, dm)
        return _question(row) if row else None

    async def count_since(self, asking_agent: str, since: datetime) -> int:
        """Return the number of questions that an agent has asked since a time."""
        count = await self._database.fetchval(
            "SELECT count(*) FROM choir_control.agent_questions "
            "WHERE asking_agent = $1 AND asked_at > $2",
            asking_agent,
            since,
        )
        return int(count)

    async def add(self, question: StoredQuestion) -> None:
        """Store a question; one of the same call stays as it is."""
        fields = asdict(question)
        await self._database.execute(
            f"INSERT INTO choir_control.agent_questions ({_COLUMNS}) "  # noqa: S608 - constants
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
            *(list(it) if isinstance(it, tuple) else it for it in fields.values()),
        )

    async def read_progress(self, question_id: str) -> QuestionProgress | None:
        """Return what has become of a question; None if there is none."""
        row = await self._database.fetchrow(_PROGRESS, question_id)
        return QuestionProgress(**dict(row)) if row else None

    async def end(self, question_id: str, state: QuestionState, now: datetime) -> None:
        """Record how a question ended; an answer that came too late counts as one."""
        await self._database.execute(
            "UPDATE choir_control.agent_questions SET state = $2, ended_at = $3 "
            "WHERE question_id = $1 AND (state = 'open' OR $2 = 'answered' AND state = 'expired')",
            question_id,
            state,
            now,
        )

    async def list_unsettled(self, now: datetime) -> list[UnsettledQuestion]:
        """End the questions whose time is over; return those whose message has neither answer nor end."""
        await self._database.execute(_SETTLE, now)
        await self._database.execute(_EXPIRE, now)
        return [UnsettledQuestion(**dict(row)) for row in await self._database.fetch(_UNSETTLED)]

    async def settle(self, question_id: str) -> None:
        """Record that nobody works on an ended question any more."""
        await self._database.execute(
            "UPDATE choir_control.agent_questions SET turn_ended = true WHERE question_id = $1",
            question_id,
        )


def _question(row: Record) -> StoredQuestion:
    return StoredQuestion(**{**dict(row), "askers": tuple(row["askers"])})
