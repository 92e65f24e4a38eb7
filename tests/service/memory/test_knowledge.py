"""Writing knowledge: insert, update by key, delete, each once per call_id."""

import asyncio
from uuid import uuid4

import pytest

from choir_common.errors import Conflict, InvalidRequest, NotFound
from tests.service.memory.conftest import Room


async def documents(room: Room, agent_id: str = "main") -> list[tuple[str | None, str, int]]:
    rows = await room.database.fetch(
        f"SELECT key, text, version FROM choir_{agent_id}.knowledge_documents ORDER BY created_at"
    )
    return [(row["key"], row["text"], row["version"]) for row in rows]


async def test_inserted_knowledge_is_found_before_it_has_a_vector(room: Room) -> None:
    written = await room.put("The spare key lies under the blue flowerpot.", key="home.key")
    assert (written.operation, written.embedded) == ("inserted", "queued")
    hits = await room.ask("flowerpots", mode="text")
    assert [hit.document_id for hit in hits.hits] == [written.document_id]
    assert hits.hits[0].key == "home.key"
    assert hits.arms_used == ("text",)


async def test_updating_a_key_replaces_its_text_and_makes_it_when_missing(room: Room) -> None:
    made = await room.put("Tea, no sugar.", operation="update", key="drink")
    changed = await room.put("Coffee, black.", operation="update", key="drink")
    again = await room.put("Coffee, black.", operation="update", key="drink")
    assert [made.operation, changed.operation, again.operation] == [
        "inserted",
        "updated",
        "unchanged",
    ]
    assert made.document_id == changed.document_id == again.document_id
    assert await documents(room) == [("drink", "Coffee, black.", 2)]
    assert not (await room.ask("tea", mode="text")).hits


async def test_an_update_by_id_changes_only_what_exists(room: Room) -> None:
    made = await room.put("first")
    await room.put("second", operation="update", document_id=made.document_id)
    assert await documents(room) == [(None, "second", 2)]
    for missing in (str(uuid4()), "no-uuid"):
        with pytest.raises(NotFound):
            await room.put("third", operation="update", document_id=missing)


async def test_a_deleted_document_leaves_no_trace(room: Room) -> None:
    made = await room.put("forget me", key="secret.plan")
    deleted = await room.put(None, operation="delete", key="secret.plan")
    assert (deleted.operation, deleted.document_id) == ("deleted", made.document_id)
    assert await documents(room) == []
    assert await room.database.fetchval("SELECT count(*) FROM choir_main.knowledge_embeddings") == 0
    with pytest.raises(NotFound, match=r"secret\.plan"):
        await room.put(None, operation="delete", key="secret.plan")


async def test_a_taken_key_is_a_conflict_that_names_the_way_out(room: Room) -> None:
    await room.put("one", key="k")
    with pytest.raises(Conflict, match="use update"):
        await room.put("two", key="k")
    assert await documents(room) == [("k", "one", 1)]


async def test_a_repeated_call_changes_nothing_and_answers_the_same(room: Room) -> None:
    first = await room.put("once", call_id="c1")
    second = await room.put("once", call_id="c1")
    assert first == second
    assert len(await documents(room)) == 1
    with pytest.raises(Conflict, match="c1"):
        await room.put("something else", call_id="c1")


async def test_a_delete_repeated_after_the_fact_answers_the_same(room: Room) -> None:
    await room.put("x", key="k")
    gone = {"operation": "delete", "key": "k", "call_id": "d1"}
    assert await room.put(None, **gone) == await room.put(None, **gone)


async def test_the_same_call_sent_many_times_at_once_happens_once(room: Room) -> None:
    answers = await asyncio.gather(*(room.put("race", call_id="same") for _ in range(8)))
    assert len({answer.document_id for answer in answers}) == 1
    assert len(await documents(room)) == 1


async def test_many_writers_of_one_key_leave_one_document(room: Room) -> None:
    texts = [f"text {number}" for number in range(8)]
    await asyncio.gather(*(room.put(text, operation="update", key="k") for text in texts))
    stored = await documents(room)
    assert len(stored) == 1
    assert stored[0][1] in texts


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"operation": "insert", "text": None}, "not blank"),
        ({"operation": "insert", "text": " \n"}, "not blank"),
        ({"operation": "insert", "document_id": "x"}, "use update"),
        ({"operation": "update"}, "either a key or a document_id"),
        ({"operation": "update", "key": "k", "document_id": "x"}, "either"),
        ({"operation": "delete", "text": None}, "either"),
        ({"operation": "delete", "key": "k"}, "takes no text"),
        ({"operation": "insert", "text": "a\x00b"}, "NUL"),
        ({"operation": "insert", "metadata": {"a": ["\x00"]}}, "NUL"),
        ({"operation": "insert", "metadata": {"a": "x" * 30_000}}, "20000 bytes"),
        ({"agent_id": "control"}, "has its own tables"),
    ],
)
async def test_a_write_that_does_not_fit_is_refused_and_changes_nothing(
    room: Room, more: dict[str, object], complaint: str
) -> None:
    await room.spaces.ensure("main")
    with pytest.raises(InvalidRequest, match=complaint):
        await room.put(**{"text": "text", **more})
    assert await documents(room) == []


async def test_metadata_and_the_largest_text_come_back_whole(room: Room) -> None:
    text = "貓喜歡魚。" * 19_999 + "尾巴尖端"
    metadata = {"tags": ["a", "ü"], "depth": {"n": 1.5, "none": None}}
    await room.put(text, metadata=metadata)
    hit = (await room.ask("貓喜歡", mode="text")).hits[0]
    assert hit.text == text
    assert hit.metadata == metadata
