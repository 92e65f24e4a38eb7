"""What was undone is not learned again: not from later pages, and not at the session's end."""

from datetime import UTC, datetime, timedelta

import pytest

from choir_common.clock import SystemClock
from choir_memory.admin.forget import MemoryForgetter
from tests.service.memory.conftest import Room
from tests.service.memory.derived import ScriptedModel, answer, propose
from tests.service.memory.session_archive import make_session_archive
from tests.service.memory.test_erase import left
from tests.service.memory.test_facts import UnavailableEmbedders, known, make_extraction
from tests.service.memory.test_forget import Desk
from tests.support.sessions import BEGAN, LogBuilder

UNLEARNED = "SELECT count(*) FROM choir_main.memory_documents WHERE metadata ? 'unlearned'"


@pytest.fixture
async def desk(room: Room) -> Desk:
    await room.spaces.ensure("main")
    return Desk(
        room,
        MemoryForgetter(room.database, room.spaces, SystemClock()),
        make_session_archive(room.database, room.spaces, room.queue),
    )


async def learn(desk: Desk, model: ScriptedModel) -> list[tuple[str, str, int]]:
    """Extract from what memory has, as if it had been stored a while ago; return what is known."""
    await desk.room.database.execute(
        "UPDATE choir_main.memory_documents SET created_at = created_at - interval '5 minutes'"
    )
    await make_extraction(desk.room, model, UnavailableEmbedders()).run_agent("main")
    return await known(desk.room)


@pytest.mark.parametrize("by", ["session", "period"])
async def test_turns_that_reach_memory_after_the_undo_are_stored_and_not_learned_from(
    desk: Desk, by: str
) -> None:
    script = LogBuilder()
    script.start()
    script.user("I only drink green tea.", "t1")
    script.reply("Noted.", "t1")
    # memory has none of it yet: the session settles only when it is quiet
    selection = {"session_id": "s1"} if by == "session" else {"since": BEGAN}
    await desk.erase(scope="learned", **selection)
    script.started_at = datetime.now(UTC) + timedelta(hours=1)
    script.user("And I live in Porto.", "t2")
    script.stop("The user drinks green tea and lives in Porto.")
    script.started_at = BEGAN
    await desk.archive.take(script.page(keep=10))
    assert await desk.units() == ["I only drink green tea.", "Noted.", "And I live in Porto."]
    porto = propose(text="The user lives in Porto.", quote="I live in Porto", object="Porto")
    model = ScriptedModel([answer(porto)])
    # what was said after it is learned; the summary of all of it is not kept
    assert await learn(desk, model) == [("The user lives in Porto.", "active", 1)]
    [(_, material)] = model.asked
    assert "green tea" not in material
    assert await desk.value("SELECT summary FROM choir_memory.sessions") == ""


async def test_a_live_session_with_an_undone_message_gets_no_episode(desk: Desk) -> None:
    script = LogBuilder()
    script.start()
    script.user("I only drink green tea.", "t1")
    script.user("I live in Porto.", "t2")
    await desk.archive.take(script.page())
    tea = await desk.value("SELECT id FROM choir_main.memory_documents WHERE text LIKE '%tea%'")
    await desk.erase(scope="learned", document=str(tea))
    script.reply("Noted.", "t2")
    script.stop("The user drinks green tea and lives in Porto.")
    await desk.archive.take(script.page(3, keep=10))
    assert await desk.value(UNLEARNED) == 1 and len(await desk.units()) == 3
    assert await left(desk.room) == set()
    assert await desk.value("SELECT summary FROM choir_memory.sessions") == ""
