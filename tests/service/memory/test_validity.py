"""Knowledge with a life: status, validity, and what supersedes it; what is over is found only on request."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.wire.memory_operator import ListMemory, ShowDocument
from choir_common.wire.memory_search import MemoryHit
from tests.service.memory.conftest import Room
from tests.service.memory.operators import make_operator
from tests.service.memory.test_reminders import told
from tests.service.memory.test_search import embed_all

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
WALNUT = "The walnut tree?"


async def found(room: Room, *include: str, **more: object) -> list[MemoryHit]:
    hits = (await room.ask("walnut tree", include=include, **more)).hits
    return sorted(hits, key=lambda hit: hit.text)


def texts(hits: Sequence[MemoryHit]) -> list[str]:
    return [hit.text for hit in hits]


async def test_what_was_superseded_answers_only_on_request_and_names_its_successor(
    room: Room,
) -> None:
    old = await room.put("The walnut tree stands by the gate.", key="tree")
    new = await room.put("The walnut tree stands by the barn.", supersedes=("tree",))
    assert new.superseded == (old.document_id,)
    await embed_all(room)
    assert texts(await found(room)) == ["The walnut tree stands by the barn."]
    assert [one.text for one in await told(room, WALNUT)] == ["The walnut tree stands by the barn."]
    _, past = await found(room, "retired")
    assert (past.status, past.superseded_by) == ("retired", (new.document_id,))
    assert past.valid_to is not None and abs(past.valid_to - NOW) < timedelta(minutes=5)


@pytest.mark.parametrize("mode", ["semantic", "text"])
async def test_what_is_valid_no_longer_is_expired(room: Room, mode: str) -> None:
    await room.put("The walnut tree is young.", valid_from=NOW - 9 * DAY, valid_to=NOW - DAY)
    await room.put("The walnut tree is old.", valid_from=NOW - DAY, valid_to=NOW + DAY)
    await embed_all(room)
    (hit,) = await found(room, mode=mode)
    assert (hit.text, hit.status, hit.valid_to) == ("The walnut tree is old.", "active", NOW + DAY)
    (reminder,) = await told(room, WALNUT)
    assert (reminder.text, reminder.valid_to) == ("The walnut tree is old.", NOW + DAY)
    assert [hit.status for hit in await found(room, "expired", mode=mode)] == ["active", "expired"]


async def test_what_will_be_valid_is_found_and_says_from_when(room: Room) -> None:
    await room.put("The walnut tree is felled.", valid_from=NOW + DAY)
    await embed_all(room)
    (hit,) = await found(room)
    assert (hit.status, hit.valid_from) == ("upcoming", NOW + DAY)
    (reminder,) = await told(room, WALNUT)
    assert reminder.valid_from == NOW + DAY


async def test_a_successor_with_a_start_closes_the_old_one_at_that_time(room: Room) -> None:
    old = await room.put("The walnut tree stands by the gate.", key="tree")
    new = await room.put("The walnut tree is felled.", valid_from=NOW + DAY, supersedes=("tree",))
    felled, stands = await found(room)
    assert (felled.status, stands.status, stands.valid_to) == ("upcoming", "active", NOW + DAY)
    assert stands.superseded_by == (new.document_id,)
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET valid_to = now() WHERE id = $1", old.document_id
    )
    assert texts(await found(room)) == ["The walnut tree is felled."]


async def test_an_update_without_a_text_ends_a_document_and_keeps_its_words(room: Room) -> None:
    made = await room.put("The walnut tree stands.", key="tree", metadata={"of": "garden"})
    ended = await room.put(None, operation="update", key="tree", valid_to=NOW)
    assert (ended.operation, ended.version) == ("updated", 2)
    assert await found(room) == []
    (hit,) = await found(room, "expired")
    assert (hit.document_id, hit.metadata) == (made.document_id, {"of": "garden"})
    again = await room.put(None, operation="update", key="tree", status="retired")
    assert again.version == 3
    assert texts(await found(room, "retired")) == ["The walnut tree stands."]
    assert await found(room, "expired") == []


async def test_an_ended_document_keeps_its_vector(room: Room) -> None:
    made = await room.put("walnut", key="tree")
    await room.put(None, operation="update", key="tree", valid_to=NOW)
    await embed_all(room)
    vectors = "SELECT count(*) FROM choir_main.knowledge_embeddings WHERE document_id = $1"
    assert await room.database.fetchval(vectors, made.document_id) == 1


async def test_what_is_written_again_is_valid_again_and_superseded_by_nothing(room: Room) -> None:
    await room.put("The walnut tree stands by the gate.", key="tree")
    await room.put("The walnut tree is felled.", key="fell", supersedes=("tree",))
    await room.put(
        "The walnut tree stands by the gate.", operation="update", key="tree", supersedes=("fell",)
    )
    (hit,) = await found(room)
    assert (hit.key, hit.status, hit.valid_to, hit.superseded_by) == ("tree", "active", None, ())
    fell, _ = await found(room, "retired")
    assert fell.superseded_by == (hit.document_id,)


async def test_a_new_text_still_supersedes_what_the_old_one_did(room: Room) -> None:
    await room.put("The walnut tree stands by the gate.", key="tree")
    new = await room.put("The walnut tree is felled.", key="fell", supersedes=("tree",))
    await room.put("The walnut tree is timber.", operation="update", key="fell")
    _, past = await found(room, "retired")
    assert past.superseded_by == (new.document_id,)


async def test_held_knowledge_is_known_and_not_said(room: Room) -> None:
    await room.put("The walnut tree is ill.", key="tree", status="held")
    assert await found(room) == []
    (hit,) = await found(room, "held")
    assert hit.status == "held"
    await room.put(None, operation="update", key="tree", status="active")
    assert [hit.status for hit in await found(room)] == ["active"]


async def test_a_repeated_write_of_the_same_changes_nothing(room: Room) -> None:
    lasting = {"operation": "update", "key": "tree", "valid_to": NOW + DAY, "status": "held"}
    first = await room.put("walnut", **lasting)
    assert (await room.put("walnut", **lasting)).operation == "unchanged"
    assert first.operation == "inserted"
    changed = await room.put("walnut", **(lasting | {"valid_to": NOW + 2 * DAY}))
    assert changed.operation == "updated"


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"valid_from": NOW, "valid_to": NOW}, InvalidRequest, "before it starts"),
        ({"supersedes": ("nothing",)}, NotFound, "nothing"),
        ({"supersedes": (str(uuid4()),)}, NotFound, "no document"),
        ({"supersedes": ("tree",), "status": "held"}, InvalidRequest, "active"),
        ({"operation": "update", "key": "tree", "supersedes": ("tree",)}, InvalidRequest, "itself"),
        ({"operation": "update", "key": "tree", "text": None}, InvalidRequest, "text"),
        (
            {"operation": "update", "key": "no", "text": None, "status": "held"},
            NotFound,
            "no document no",
        ),
        (
            {"operation": "update", "key": "tree", "text": None, "status": "held",
             "metadata": {"a": 1}},
            InvalidRequest,
            "metadata",
        ),
        (
            {"operation": "update", "key": "tree", "text": None, "valid_to": NOW - 9 * DAY},
            InvalidRequest,
            "before it starts",
        ),
        (
            {"operation": "update", "key": "tree", "text": None, "status": "held",
             "expected_version": 7},
            Conflict,
            "version 1",
        ),
        ({"operation": "delete", "key": "tree", "text": None, "valid_to": NOW}, InvalidRequest, ""),
        ({"operation": "insert", "text": None, "status": "held"}, InvalidRequest, "text"),
    ],
)  # fmt: skip
async def test_what_does_not_fit_is_refused_and_nothing_is_written(
    room: Room, fields: dict[str, object], error: type[Exception], words: str
) -> None:
    await room.put("The walnut tree stands.", key="tree", valid_from=NOW - DAY)
    given = {"text": "New words.", **fields}
    with pytest.raises(error, match=words):
        await room.put(given.pop("text"), **given)  # type: ignore[arg-type]
    rows = await room.database.fetch("SELECT text, version FROM choir_main.knowledge_documents")
    assert [tuple(row) for row in rows] == [("The walnut tree stands.", 1)]


async def test_a_floor_leaves_out_weak_hits(room: Room) -> None:
    await room.put("The walnut tree fell on the gate.")
    await room.put("The gate is green.")
    await embed_all(room)
    every = await room.ask("walnut tree gate", mode="text")
    assert len(every.hits) == 2 and every.hits[0].score > 0.5 > every.hits[1].score
    strong = await room.ask("walnut tree gate", mode="text", min_score=0.5, explain=True)
    assert [hit.document_id for hit in strong.hits] == [every.hits[0].document_id]
    assert strong.receipt is not None and strong.receipt["filters"] == ["min_score"]
    session = {"store": "session", "mode": "session_detail", "session_id": "s"}
    with pytest.raises(InvalidRequest, match="min_score"):
        await room.ask("", min_score=0.5, **session)


async def test_scopes_and_tags_limit_reminders_and_searches(room: Room) -> None:
    await room.put("The walnut tree is ours.")
    await room.put("The walnut tree of the farm is tall.", metadata={"scope": "farm"})
    await room.put("The walnut tree of the town is small.", metadata={"scope": "town", "by": "Ann"})
    await embed_all(room)

    async def reminded(**more: object) -> set[str]:
        return {one.text for one in await told(room, "walnut tree", **more)}

    assert len(await reminded()) == 3
    fitting = {"The walnut tree is ours.", "The walnut tree of the farm is tall."}
    assert await reminded(scopes=("farm",)) == fitting
    assert set(texts(await found(room, scopes=("farm",)))) == fitting
    assert await reminded(tags={"by": "Ann"}) == {"The walnut tree of the town is small."}
    assert await reminded(scopes=("farm",), tags={"by": "Ann"}) == set()


async def test_operators_see_status_and_successor_in_lists_and_documents(room: Room) -> None:
    reader = make_operator(room).reader
    await room.put("The walnut tree stands by the gate.", key="tree")
    new = await room.put("The walnut tree is felled.", key="fell", supersedes=("tree",))
    await room.put("The walnut tree is timber.", key="timber", valid_from=NOW + DAY)

    async def listed(**more: object) -> dict[str | None, tuple[str, tuple[str, ...]]]:
        page = await reader.list(ListMemory(agent_id="main", **more))
        return {one.key: (one.status, one.superseded_by) for one in page.items}

    assert await listed() == {"fell": ("active", ()), "timber": ("upcoming", ())}
    assert (await listed(hidden=True))["tree"] == ("retired", (new.document_id,))
    shown = await reader.show(ShowDocument(agent_id="main", name="tree"))
    assert [(link.kind, link.direction, link.document_id) for link in shown.links] == [
        ("supersedes", "to", new.document_id)
    ]
    entries = await room.database.fetch(
        "SELECT operation FROM choir_memory.audit WHERE operation = 'superseded'"
    )
    assert len(entries) == 1
