"""What users think of a session's conduct is kept apart: it is no fact, and no prompt contains it."""

import json

from choir_common.clock import SystemClock
from choir_common.wire.memory_operator import ListFeedback
from choir_memory.admin.read import MemoryReader
from choir_memory.audit.store import AuditStore
from choir_memory.documents.erase_store import erase_documents, erase_references
from choir_memory.facts.feedback_store import list_feedback
from choir_memory.schema.store import agent_transaction, resume_service_role
from tests.service.memory.conftest import Room
from tests.service.memory.derived import propose
from tests.service.memory.test_facts import known, make, say

LONG = ("2026-03-01T09:00", "Ana", "That answer was far too long, but I do like green tea.")
ANSWER = json.dumps(
    {
        "candidates": [
            # the model takes it for a wish as well: code holds that it is none
            propose(kind="rule", text="Answer shorter.", quote="answer was far too long"),
            propose(category="feedback", quote="far too long"),
            propose(quote="I do like green tea"),
        ],
        "feedback": [
            {"label": "negative", "quote": "That answer was far too long", "source": 1},
            {"label": "positive", "quote": "you are so good", "source": 1},
        ],
    }
)


async def test_feedback_never_becomes_a_fact_or_a_rule_and_is_listed_apart(room: Room) -> None:
    (turn,) = await say(room, LONG)
    await make(room, ANSWER)[0].run_agent("main")
    assert await known(room) == [("The user drinks green tea.", "active", 1)]
    (item,) = await list_feedback(room.database, "main", None, 10)
    assert (item.session_id, item.turn_id, item.label, item.text) == (
        "s1",
        turn,
        "negative",
        LONG[2],
    )
    assert await list_feedback(room.database, "main", "s2", 10) == []
    assert (await room.ask("too long", mode="text", include=("held", "retired"))).hits == ()


async def test_an_operator_reads_it_and_that_is_audited(room: Room) -> None:
    (turn,) = await say(room, LONG)
    await make(room, ANSWER)[0].run_agent("main")
    reader = MemoryReader(
        database=room.database,
        spaces=room.spaces,
        search_service=room.recall,
        audit_log=AuditStore(room.database),
        clock=SystemClock(),
    )
    page = await reader.feedback(ListFeedback(agent_id="main"))
    assert [(item.label, item.document_id) for item in page.items] == [("negative", str(turn))]
    row = await room.database.fetchrow("SELECT operation, document_ids FROM choir_memory.audit")
    assert row is not None and (row["operation"], row["document_ids"]) == ("feedback", [turn])


async def test_erasing_the_message_erases_its_feedback(room: Room) -> None:
    (turn,) = await say(room, LONG)
    await make(room, ANSWER)[0].run_agent("main")
    async with agent_transaction(room.database, "main") as connection:
        erased = await erase_documents(connection, "main", [turn])
        await resume_service_role(connection)
        await erase_references(connection, "main", erased.ids)
    count = "SELECT count(*) FROM choir_memory.session_feedback"
    assert await room.database.fetchval(count) == 0
