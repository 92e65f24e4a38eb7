"""Rows of a session as the archive would leave them, for tests of what reads them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from choir_memory.embedding.queue_store import enqueue
from choir_memory.schema.store import qualified
from choir_memory.text.questions import question_share
from choir_memory.text.tokens import document_tokens, tsvector
from tests.service.memory.conftest import Room

MORNING = datetime(2024, 5, 1, 9, 0, tzinfo=UTC)


async def remember(room: Room, session_id: str, position: int, text: str, **more: object) -> UUID:
    """Write one row and ask for its vector; `more` are other columns."""
    await room.spaces.ensure("main")
    tokens = document_tokens(text)
    columns: dict[str, object] = {
        "id": uuid4(),
        "session_id": session_id,
        "tier": "mid_term",
        "chunk_index": position,
        "text": text,
        "tokens": len(tokens),
        "asking": question_share(text),
        "happened_at": MORNING + timedelta(minutes=position),
        **more,
    }
    names = ", ".join(columns)
    marks = ", ".join(f"${at}" for at in range(1, len(columns) + 1))
    sql = (
        f"INSERT INTO {{schema}}.memory_documents ({names}, tsv) "
        f"VALUES ({marks}, ${len(columns) + 1}::text::tsvector)"
    )
    async with room.database.transaction() as held:
        await held.execute(qualified(sql, "main"), *columns.values(), tsvector(tokens))
        await enqueue(held, "main", "session", columns["id"])
    return columns["id"]


async def remember_session(room: Room, session_id: str, tier: str, *texts: str) -> list[UUID]:
    """Write a session's rows in order."""
    return [
        await remember(room, session_id, position, text, tier=tier)
        for position, text in enumerate(texts)
    ]
