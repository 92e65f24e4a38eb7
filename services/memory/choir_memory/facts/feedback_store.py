"""Users' feedback on the conduct of a session: rows of `choir_memory.session_feedback`.

It is kept apart from memory: nothing that an agent reads contains it. A row refers to its turn and has no
text of its own. Requires the service's role.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection, Database
from choir_memory.facts.candidates import Feedback, FeedbackLabel, SourceTurn
from choir_memory.schema.store import qualified

_ADD = """
INSERT INTO choir_memory.session_feedback (agent_id, session_id, turn_id, label, happened_at)
VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING
"""
_LIST = """
SELECT f.session_id, f.turn_id, f.label, f.happened_at, d.text
FROM choir_memory.session_feedback f JOIN {schema}.memory_documents d ON d.id = f.turn_id
WHERE f.agent_id = $1 AND ($2::text IS NULL OR f.session_id = $2)
ORDER BY f.happened_at DESC, f.turn_id LIMIT $3
"""


@dataclass(frozen=True, slots=True)
class StoredFeedback:
    """A user's judgement, with the text of the message that it was in."""

    session_id: str
    turn_id: UUID
    label: FeedbackLabel
    happened_at: datetime
    text: str


async def add_feedback(
    connection: Connection, agent_id: str, feedback: Sequence[tuple[Feedback, SourceTurn]]
) -> None:
    """Store feedback; what is stored already is kept."""
    for item, turn in feedback:
        await connection.execute(
            _ADD, agent_id, turn.session_id, turn.document_id, item.label, turn.happened_at
        )


async def list_feedback(
    database: Database, agent_id: str, session_id: str | None, limit: int
) -> list[StoredFeedback]:
    """Return an agent's feedback whose turns still exist, newest first; of one session or of all (None)."""
    rows = await database.fetch(qualified(_LIST, agent_id), agent_id, session_id, limit)
    return [StoredFeedback(*row.values()) for row in rows]
