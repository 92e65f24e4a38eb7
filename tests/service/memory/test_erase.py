"""Deleting takes along what tells of a document: links, queue rows, receipts, what it alone supported."""

from collections.abc import Iterable
from uuid import UUID, uuid4

import orjson
import pytest

from choir_common.errors import Conflict, NotFound
from choir_memory.schema.store import agent_transaction
from tests.service.memory.conftest import Room


async def add(room: Room, text: str, **columns: object) -> UUID:
    """Put a document of knowledge as a consolidation would."""
    made = await room.put(text)
    document_id = UUID(str(made.document_id))
    for name, value in columns.items():
        await room.database.execute(
            f"UPDATE choir_main.knowledge_documents SET {name} = $2 WHERE id = $1",
            document_id,
            value,
        )
    return document_id


async def link(room: Room, from_id: UUID, kind: str, *to: UUID) -> None:
    for one in to:
        sql = "INSERT INTO choir_main.links (from_id, kind, to_id) VALUES ($1, $2, $3)"
        await room.database.execute(sql, from_id, kind, one)


async def left(room: Room) -> set[UUID]:
    rows = await room.database.fetch("SELECT id FROM choir_main.knowledge_documents")
    return {row["id"] for row in rows}


async def forget(room: Room, document_id: UUID) -> None:
    await room.put(None, operation="delete", document_id=str(document_id))


async def entries(room: Room, operation: str) -> list[tuple[str, set[UUID]]]:
    rows = await room.database.fetch(
        "SELECT actor, document_ids FROM choir_memory.audit WHERE operation = $1 ORDER BY id",
        operation,
    )
    return [(row["actor"], set(row["document_ids"])) for row in rows]


async def test_what_only_a_deleted_document_supported_goes_with_it(room: Room) -> None:
    source, other = await add(room, "He said so."), await add(room, "She said so, too.")
    alone, both, further = [await add(room, text) for text in ("alone", "both", "further")]
    await link(room, alone, "evidence", source)
    await link(room, both, "evidence", source, other)
    await link(room, further, "evidence", alone)
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET evidence = 'so' WHERE id = $1", both
    )
    await forget(room, source)
    assert await left(room) == {other, both}
    sql = "SELECT evidence FROM choir_main.knowledge_documents WHERE id = $1"
    assert await room.database.fetchval(sql, both) is None
    rows = await room.database.fetch("SELECT from_id, to_id FROM choir_main.links")
    assert [(row["from_id"], row["to_id"]) for row in rows] == [(both, other)]
    assert await entries(room, "deleted") == [("agent:main", {source, alone, further})]


async def test_a_summary_goes_with_any_of_its_sources(room: Room) -> None:
    one, two, day, month = [await add(room, text) for text in ("one", "two", "day", "month")]
    await link(room, day, "rolls_up", one, two)
    await link(room, month, "rolls_up", day)
    await forget(room, one)
    assert await left(room) == {two}


async def test_an_entity_goes_with_its_last_mention_unless_a_person_wrote_it(room: Room) -> None:
    first, second = await add(room, "Ann came."), await add(room, "Ann and Bea left.")
    ann = await add(room, "Ann", kind="entity")
    bea = await add(room, "Bea", kind="entity", origin="operator")
    await link(room, first, "mentions", ann)
    await link(room, second, "mentions", ann, bea)
    await forget(room, first)
    assert await left(room) == {second, ann, bea}
    await forget(room, second)
    assert await left(room) == {bea}


async def test_what_supersedes_a_deleted_fact_stays(room: Room) -> None:
    old, new = await add(room, "She lives in Rome."), await add(room, "She lives in Oslo.")
    await link(room, new, "supersedes", old)
    await forget(room, old)
    assert await left(room) == {new}


async def test_a_new_text_does_not_stand_on_what_supported_the_old_one(room: Room) -> None:
    source = await add(room, "source")
    made = await room.put("derived", key="k")
    await link(room, UUID(str(made.document_id)), "evidence", source)
    await room.put("written by hand", operation="update", key="k")
    await forget(room, source)
    assert await left(room) == {UUID(str(made.document_id))}


async def say_in_receipts(room: Room, ids: Iterable[object], agent_id: str = "main") -> UUID:
    receipt = orjson.dumps({"hits": [{"document_id": str(one), "score": 1.5} for one in ids]})
    number = uuid4()
    await room.database.execute(
        "INSERT INTO choir_memory.receipts (id, agent_id, asked_by, receipt) "
        "VALUES ($1, $2, 'main', $3::jsonb)",
        number,
        agent_id,
        receipt.decode(),
    )
    return number


async def test_receipts_queue_and_answers_name_no_deleted_document(room: Room) -> None:
    made = await room.put("The dog is called Bello.", key="dogs.bello")
    kept = await room.put("The cat is called Minka.", key="cats.minka")
    receipt = await say_in_receipts(room, (made.document_id, kept.document_id))
    assert await room.database.fetchval("SELECT count(*) FROM choir_memory.embedding_queue") == 2
    await room.put(None, operation="delete", key="dogs.bello")
    waiting = await room.database.fetch("SELECT document_id FROM choir_memory.embedding_queue")
    assert [str(row["document_id"]) for row in waiting] == [kept.document_id]
    sql = "SELECT receipt::text FROM choir_memory.receipts WHERE id = $1"
    said = await room.database.fetchval(sql, receipt)
    assert made.document_id not in said and kept.document_id in said
    answers = await room.database.fetchval(
        "SELECT string_agg(answer::text, ' ') FROM choir_main.operations"
    )
    assert "bello" not in answers and "cats.minka" in answers


async def test_a_repeated_delete_answers_the_same(room: Room) -> None:
    await room.put("x", key="k")
    first = await room.put(None, operation="delete", key="k", call_id="once")
    assert await room.put(None, operation="delete", key="k", call_id="once") == first


async def test_a_write_that_expects_another_version_changes_nothing_and_says_both(
    room: Room,
) -> None:
    made = await room.put("first", operation="update", key="k", expected_version=0)
    assert made.version == 1
    changed = await room.put("second", operation="update", key="k", expected_version=1)
    assert changed.version == 2
    with pytest.raises(Conflict, match="is at version 2, not at the expected version 1"):
        await room.put("third", operation="update", key="k", expected_version=1)
    with pytest.raises(Conflict, match="is at version 2, but should not exist yet"):
        await room.put("third", operation="update", key="k", expected_version=0)
    with pytest.raises(Conflict, match="version 2"):
        await room.put(None, operation="delete", key="k", expected_version=1)
    with pytest.raises(NotFound, match="you expect version 3"):
        await room.put("other", operation="update", key="other", expected_version=3)
    hits = (await room.ask("first second third other", mode="text")).hits
    assert [hit.text for hit in hits] == ["second"]
    await room.put(None, operation="delete", key="k", expected_version=2)


async def test_every_change_stands_in_the_audit_with_ids_and_no_word_of_it(room: Room) -> None:
    made = await room.put("a flowerpot", key="garden.pot")
    await room.put("a flowerpot", operation="update", key="garden.pot")
    await room.put("a spade", operation="update", key="garden.pot")
    await room.put(None, operation="delete", key="garden.pot")
    rows = await room.database.fetch(
        "SELECT *, audit::text AS whole FROM choir_memory.audit ORDER BY id"
    )
    assert [row["operation"] for row in rows] == ["inserted", "updated", "deleted"]
    assert {row["actor"] for row in rows} == {"agent:main"}
    assert {str(one) for row in rows for one in row["document_ids"]} == {made.document_id}
    assert not [row for row in rows if "garden" in row["whole"] or "spade" in row["whole"]]


async def test_the_role_of_an_agent_cannot_reach_the_audit(room: Room) -> None:
    await room.put("x")
    for table in ("audit", "receipts", "cursors"):
        with pytest.raises(Exception, match="permission denied"):
            async with agent_transaction(room.database, "main") as held:
                await held.execute(f"DELETE FROM choir_memory.{table}")
