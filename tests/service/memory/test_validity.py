"""Knowledge with a life: status, validity, and what supersedes it; what is over is found only on request."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import Conflict, Forbidden, InvalidRequest, NotFound
from choir_common.wire.memory_forget import ForgetMemory, ForgetSelection
from choir_common.wire.memory_operator import ListMemory, ShowDocument
from choir_common.wire.memory_search import MemoryHit, MemoryUpsert
from choir_memory.admin.forget import MemoryForgetter
from choir_memory.facts.store import FactStore
from choir_memory.schema.store import agent_transaction
from tests.service.memory.conftest import Room
from tests.service.memory.lived import remember
from tests.service.memory.operators import make_operator
from tests.service.memory.test_erase import add
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
    assert past.valid_to is not None and abs(past.valid_to - datetime.now(UTC)) < timedelta(
        minutes=5
    )


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


async def test_what_is_over_does_not_hide_the_same_words_where_they_are_valid(room: Room) -> None:
    await room.put("The walnut tree stands.", key="now")
    await room.put("The walnut tree stands.", key="again")
    await room.put("The walnut tree stands.", key="later", valid_from=NOW + DAY)
    await room.put("The walnut tree stands.", key="past", status="retired")
    shown = {(hit.status, hit.times) for hit in await found(room)}
    assert shown == {("active", 2), ("upcoming", 1)}
    shown = {(hit.status, hit.times) for hit in await found(room, "retired")}
    assert shown == {("active", 2), ("upcoming", 1), ("retired", 1)}


async def test_what_was_superseded_before_it_began_can_be_written_again(room: Room) -> None:
    await room.put("The walnut tree is felled.", key="tree", valid_from=NOW + DAY)
    await room.put("The walnut tree stays.", supersedes=("tree",))
    await room.put(None, operation="update", key="tree", status="retired")
    await room.put("The walnut tree is felled.", operation="update", key="tree")
    felled, _ = await found(room)
    assert (felled.status, felled.valid_from, felled.valid_to) == ("upcoming", NOW + DAY, None)


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
        ({"valid_from": NOW, "valid_to": NOW}, InvalidRequest, "after it starts"),
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
            "after it starts",
        ),
        (
            {"operation": "update", "key": "tree", "text": None, "status": "held",
             "expected_version": 7},
            Conflict,
            "version 1",
        ),
        ({"operation": "delete", "key": "tree", "text": None, "valid_to": NOW}, InvalidRequest, "no status"),
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


def outside(operation: str, **more: object) -> dict[str, object]:
    """Return a write of a turn in which the agent has read a page."""
    return {"text": None, "operation": operation, "outside": True, **more}


@pytest.mark.parametrize(
    "change",
    [
        outside("update", status="retired"),
        outside("update", status="held"),
        outside("update", valid_to=NOW),
        outside("update", text="The walnut tree is Mallory's."),
        outside("delete"),
        outside("insert", text="The walnut tree is Mallory's.", supersedes=True),
    ],
)
async def test_a_page_cannot_make_the_agent_end_what_a_user_or_operator_said(
    room: Room, change: dict[str, object]
) -> None:
    await room.spaces.ensure("main")
    fact = await add(room, "The walnut tree is mine.", kind="fact", origin="derived", trust=70)
    ours = await make_operator(room).writer.put(
        MemoryUpsert(agent_id="main", call_id="o", operation="insert", key="gate", text="A gate.")
    )
    for name, trust in ((fact, 70), (ours.document_id, 90)):
        named = (
            {"supersedes": (str(name),)} if "supersedes" in change else {"document_id": str(name)}
        )
        with pytest.raises(Forbidden, match=f"has trust {trust}.*ask the user"):
            await room.put(**{**change, **named})  # type: ignore[arg-type]
    rows = "SELECT text, status, valid_to FROM choir_main.knowledge_documents ORDER BY trust"
    assert [tuple(row) for row in await room.database.fetch(rows)] == [
        ("The walnut tree is mine.", "active", None),
        ("A gate.", "active", None),
    ]
    # the user's own word, in a turn without a page, does
    ended = await room.put(None, operation="update", document_id=str(fact), status="retired")
    assert ended.operation == "updated"


async def test_a_note_that_a_page_made_the_agent_rewrite_never_comes_unasked(room: Room) -> None:
    await room.put("The walnut tree is by the gate.", key="tree")
    note = {"text": "The walnut tree is by the barn.", "key": "tree"}
    await room.put(**outside("update", **note))  # type: ignore[arg-type]
    assert [(hit.text, hit.trust) for hit in await found(room)] == [(note["text"], 10)]
    assert await told(room, WALNUT) == []


@pytest.mark.parametrize(("least", "trust"), [(30, 30), (70, 50)])
async def test_a_note_has_no_more_trust_than_the_agent_had_read(
    room: Room, least: int, trust: int
) -> None:
    await room.put(WALNUT, least_trust=least)
    assert [hit.trust for hit in await found(room)] == [trust]


@pytest.mark.parametrize("start", [None, NOW + DAY])
async def test_what_a_successor_ended_is_valid_as_before_when_that_is_forgotten(
    room: Room, start: datetime | None
) -> None:
    forgetter = MemoryForgetter(room.database, room.spaces, SystemClock())
    await room.put("The walnut tree stands.", key="tree", valid_to=NOW + 9 * DAY)
    await room.put("The walnut tree is ill.", key="held", status="held")
    await room.put("The walnut tree is retired.", key="over", status="retired")
    old = ("tree", "held", "over")
    await room.put("The walnut tree fell.", key="fell", valid_from=start, supersedes=old)
    await room.put(
        "The walnut tree is timber.", key="timber", valid_from=start, supersedes=("held",)
    )
    selection = ForgetSelection(document="fell")
    shown = await forgetter.forget(ForgetMemory(agent_id="main", selection=selection))
    assert (shown.total, shown.restored) == (1, 1)
    selection = ForgetSelection(document="fell", expected_digest=shown.digest)
    await forgetter.forget(ForgetMemory(agent_id="main", selection=selection))

    async def state(key: str) -> tuple[object, ...]:
        rows = "SELECT status, valid_to, metadata::text FROM choir_main.knowledge_documents WHERE key = $1"
        row = await room.database.fetchrow(rows, key)
        return tuple(row or ())

    assert await state("tree") == ("active", NOW + 9 * DAY, "{}")
    assert (await state("over"))[0] == "retired"
    assert (await state("held"))[1] is not None
    await room.put(None, operation="delete", key="timber")
    assert await state("held") == ("held", None, "{}")


async def test_what_was_ended_by_hand_is_no_rival_of_a_new_fact(room: Room) -> None:
    await room.spaces.ensure("main")
    about = {"kind": "fact", "subject": "Ann", "predicate": "lives in"}
    texts_ = ("Ann lives in Rome.", "Ann lives in Oslo.", "Ann lives in Bonn.")
    rome, oslo, bonn = [await add(room, text, **about) for text in texts_]
    await room.put(None, operation="update", document_id=str(rome), valid_to=NOW)
    await room.put(None, operation="update", document_id=str(oslo), status="retired")
    await room.put(None, operation="update", document_id=str(bonn), valid_from=NOW + 2 * DAY)
    async with agent_transaction(room.database, "main") as connection:
        facts = FactStore(connection, "main")
        assert [one.document_id for one in await facts.list_by_subject("fact", "Ann")] == [bonn]
        await facts.retire(bonn, NOW)
    rows = "SELECT id, status, valid_from, valid_to FROM choir_main.knowledge_documents"
    ends = {row["id"]: tuple(row)[1:] for row in await room.database.fetch(rows)}
    assert ends[bonn] == ("retired", NOW + 2 * DAY, NOW + 2 * DAY)
    assert ends[rome][2] == NOW


async def test_without_a_floor_of_its_own_a_search_leaves_out_far_weaker_knowledge(
    room: Room,
) -> None:
    await room.put("The walnut tree fell on the gate.")
    await room.put("The gate is green.")
    await embed_all(room)
    (hit,) = (await room.ask("walnut tree gate", mode="text")).hits
    assert hit.text == "The walnut tree fell on the gate."
    assert len((await room.ask("walnut tree gate", mode="text", min_score=0)).hits) == 2
    for position, text in enumerate(("The walnut tree fell on the gate.", "The gate is green.")):
        await remember(room, "s", position, text, origin="user", trust=70)
    messages = await room.ask("walnut tree gate", mode="text", store="session")
    assert len(messages.hits) == 2, "a message may be answered by its neighbour"


async def test_a_floor_leaves_out_weak_hits(room: Room) -> None:
    await room.put("The walnut tree fell on the gate.")
    await room.put("The gate is green.")
    await embed_all(room)
    every = await room.ask("walnut tree gate", mode="text", min_score=0)
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
