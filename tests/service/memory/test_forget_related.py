"""What belongs to a forgotten part: what it had replaced, unconfirmed facts, feedback; and what does not."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from choir_common.errors import Conflict
from choir_common.wire.memory_sessions import EraseSession
from choir_memory.admin.write import SessionEraser
from choir_memory.facts.store import FactStore
from choir_memory.schema.store import agent_transaction
from choir_memory.sessions.forgotten_period_store import lock_against_erasure
from tests.service.memory.conftest import Room
from tests.service.memory.derived import live_turns
from tests.service.memory.test_erase import add, left
from tests.service.memory.test_forget import Desk, desk, learn
from tests.support.sessions import conversation_log

__all__ = ["desk"]

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
SAID_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
FEEDBACK = """
INSERT INTO choir_memory.session_feedback (agent_id, session_id, turn_id, label, happened_at)
VALUES ('main', 's1', $1, 'negative', now())
"""


async def validity(desk: Desk, document_id: object) -> tuple[object, ...]:
    row = await desk.room.database.fetchrow(
        "SELECT status, valid_from, valid_to, retired_at IS NULL AS known "
        "FROM choir_main.knowledge_documents WHERE id = $1",
        UUID(str(document_id)),
    )
    assert row is not None
    return tuple(row.values())


async def test_what_a_forgotten_note_had_replaced_is_valid_again_until_its_own_end(
    desk: Desk,
) -> None:
    room = desk.room
    lasting = await room.put("Rent is 700.", key="rent")
    limited = await room.put("Rent is 700 this year.", valid_to=NOW + 9 * DAY)
    new = await room.put("Rent is 4711.", supersedes=("rent", limited.document_id))
    shown = await desk.preview(words="4711")
    assert (shown.total, shown.restored) == (1, 2)
    await desk.erase(document=new.document_id)
    assert await validity(desk, lasting.document_id) == ("active", None, None, True)
    assert await validity(desk, limited.document_id) == ("active", None, NOW + 9 * DAY, True)


@pytest.mark.parametrize("starts_in", [DAY, -DAY])
async def test_a_replacement_at_a_date_is_taken_back_before_and_after_it(
    desk: Desk, starts_in: timedelta
) -> None:
    room = desk.room
    old = await room.put("The walnut tree stands.", key="tree", valid_from=NOW - 9 * DAY)
    new = await room.put("It is felled.", valid_from=NOW + DAY, supersedes=("tree",))
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET valid_to = $2 WHERE id = $1",
        UUID(str(old.document_id)),
        NOW + starts_in,
    )
    assert (await desk.erase(document=new.document_id)).restored == 1
    assert await validity(desk, old.document_id) == ("active", NOW - 9 * DAY, None, True)


async def test_what_two_documents_replaced_returns_with_the_last_of_them(desk: Desk) -> None:
    room = desk.room
    old = await room.put("Rent is 700.", key="rent", valid_to=NOW + 9 * DAY)
    for text in ("Rent is 800.", "Rent is 900."):
        await room.put(text, key=text.split()[-1], supersedes=("rent",), valid_from=NOW + DAY)
    assert (await desk.erase(document="800.")).restored == 0
    assert (await desk.erase(document="900.")).restored == 1
    assert await validity(desk, old.document_id) == ("active", None, NOW + 9 * DAY, True)


async def test_a_held_fact_that_was_replaced_is_held_again(desk: Desk) -> None:
    room = desk.room
    first, second = await live_turns(
        room.database,
        [("2026-03-01 12:00", "user", "Oslo?"), ("2026-03-02 12:00", "user", "Bergen.")],
    )
    oslo = await learn(room, "The user lives in Oslo.", first, status="held")
    bergen = await room.put("The user lives in Bergen.", key="home")
    async with agent_transaction(room.database, "main") as connection:
        await FactStore(connection, "main").retire(oslo, SAID_AT)
        await connection.execute(
            "INSERT INTO choir_main.links (from_id, kind, to_id) VALUES ($1, 'supersedes', $2)",
            UUID(str(bergen.document_id)),
            oslo,
        )
    assert second is not None
    await desk.erase(document="home")
    assert await validity(desk, oslo) == ("held", None, None, True)


async def test_a_note_of_an_earlier_session_stays_if_only_its_validity_was_changed(
    desk: Desk,
) -> None:
    room = desk.room
    note = await room.put("Trash is on Monday.", key="trash", session_id="s1")
    await room.put(None, operation="update", key="trash", valid_to=NOW + 9 * DAY, session_id="s2")
    assert (await desk.preview(session_id="s2")).total == 0
    later = await room.put("Post is on Tuesday.", key="post", session_id="s2")
    await room.put("Post is on Friday.", operation="update", key="post", session_id="s3")
    assert (await desk.preview(session_id="s2")).total == 0
    await desk.erase(session_id="s3")
    assert await left(room) == {UUID(str(note.document_id))}, f"not {later.document_id}"


SELECTIONS = (
    {"session_id": "s1"},
    {"since": SAID_AT - timedelta(hours=1), "until": SAID_AT + timedelta(hours=1)},
    {"words": "quinces"},
    {"scope": "said", "session_id": "s1"},
    {"scope": "learned", "session_id": "s1"},
)


async def hear(desk: Desk) -> tuple[UUID, UUID, UUID]:
    """Store two messages of two sessions with feedback and held facts; return facts and the second turn."""
    room = desk.room
    (turn,) = await live_turns(
        room.database, [("2026-03-01 12:00", "user", "I may like quinces.")], session="s1"
    )
    (other,) = await live_turns(
        room.database, [("2026-03-05 12:00", "user", "Quince is fine.")], session="s2"
    )
    held = await learn(room, "The user likes quinces.", turn, status="held", happened_at=SAID_AT)
    entity = await add(room, "quinces of Ada", kind="entity")
    await room.database.execute(
        "INSERT INTO choir_main.links (from_id, kind, to_id) VALUES ($1, 'mentions', $2)",
        held,
        entity,
    )
    elsewhere = await learn(room, "The user knows fruit.", turn, other, status="held")
    for source in (turn, other):
        await room.database.execute(FEEDBACK, source)
    return held, elsewhere, other


@pytest.mark.parametrize("selection", SELECTIONS)
async def test_held_facts_go_with_what_they_rest_on_unless_more_supports_them(
    desk: Desk, selection: dict[str, object]
) -> None:
    held, elsewhere, _ = await hear(desk)
    if "words" in selection:
        # the other message has the word as well, so both are selected
        await desk.erase(**selection)
        assert await left(desk.room) == set()
        return
    await desk.erase(**selection)
    assert await left(desk.room) == {elsewhere}, f"{held} with its entity is gone"


@pytest.mark.parametrize("selection", SELECTIONS)
async def test_feedback_goes_with_its_message(desk: Desk, selection: dict[str, object]) -> None:
    _, _, other = await hear(desk)
    await desk.erase(**selection)
    rows = await desk.room.database.fetch("SELECT turn_id FROM choir_memory.session_feedback")
    if selection.get("scope") == "learned":
        assert len(rows) == 2, "what was said stays"
    elif "words" in selection:
        assert rows == []
    else:
        assert [row["turn_id"] for row in rows] == [other]


async def test_parts_of_collections_are_never_taken_by_words_periods_or_sessions(
    desk: Desk,
) -> None:
    columns = {"kind": "document_chunk", "collection": "plans", "chunk_index": 0}
    chunk = await add(desk.room, "Quinces grow by the wall.", happened_at=SAID_AT, **columns)
    for selection in SELECTIONS:
        assert (await desk.preview(**selection)).total == 0
        await desk.erase(**selection)
    assert await left(desk.room) == {chunk}


async def test_a_page_that_is_being_stored_is_waited_for_and_changes_the_preview(
    desk: Desk,
) -> None:
    room = desk.room
    async with room.database.transaction() as connection:
        await lock_against_erasure(connection, "main")
        erasing = asyncio.create_task(desk.erase(session_id="s1"))
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        async with asyncio.timeout(20):
            while not await room.database.fetchval(waits):
                await asyncio.sleep(0.01)
        await live_turns(room.database, [("2026-03-01 12:00", "user", "Quinces.")], session="s1")
    with pytest.raises(Conflict, match="changed since the preview"):
        await erasing


async def test_a_turn_whose_lessons_were_taken_back_is_not_learned_by_a_batch_that_read_it_before(
    room: Room, desk: Desk
) -> None:
    (turn,) = await live_turns(room.database, [("2026-03-01 12:00", "user", "Lies.")], session="s1")
    await desk.erase(scope="learned", session_id="s1")
    async with agent_transaction(room.database, "main") as connection:
        assert not await FactStore(connection, "main").lock_turns([turn])


async def test_a_session_erased_after_a_reset_takes_what_was_learned_from_it(desk: Desk) -> None:
    room = desk.room
    await desk.take(conversation_log("s1", "My number is 4711.", "Yes.", summary="A number."))
    await desk.take(conversation_log("s2", "My number is 42.", "Yes.", summary="Another number."))
    await desk.erase(scope="said", session_id="s1")
    assert len(await left(room)) == 2, "the episodes of both"
    erased = EraseSession(agent_id="main", session_id="s1")
    await SessionEraser(room.database, room.spaces).erase(erased)
    assert len(await left(room)) == 1
