"""What a session was about becomes one document of knowledge when it has ended."""

from choir_common.wire.memory_sessions import EraseSession
from choir_memory.documents.erase_store import erase
from choir_memory.layers.episodes import remember_episode
from choir_memory.layers.tool_errors import remember_troubles
from choir_memory.schema.store import as_agent
from choir_memory.sessions.archive import Archive
from choir_memory.sessions.erase import Eraser
from choir_memory.sessions.promote import Promotion
from tests.service.memory.conftest import Room
from tests.support.sessions import BEGAN, Script, talk

HOUSE = "Ada planned the blue house and chose its tiles."


async def live(room: Room, script: Script) -> None:
    announce = room.queue.announce
    promotion = Promotion(room.database, announce)
    archive = Archive(
        room.database, room.spaces, promotion, announce, remember_troubles, remember_episode
    )
    await archive.take(script.page())
    await archive.take(script.page(keep=10))


async def episodes(room: Room) -> list[tuple[str, int, object]]:
    rows = await room.database.fetch(
        "SELECT text, trust, happened_at FROM choir_main.knowledge_documents WHERE kind = 'episode'"
    )
    return [(row["text"], row["trust"], row["happened_at"]) for row in rows]


async def test_a_session_that_ended_with_a_summary_is_found_as_knowledge(room: Room) -> None:
    await live(room, talk("s1", "A house, please.", "With blue tiles.", summary=HOUSE))
    assert await episodes(room) == [(HOUSE, 50, BEGAN)]
    (hit,) = (await room.ask("blue house", mode="text")).hits
    assert (hit.kind, hit.text, hit.metadata) == ("episode", HOUSE, {"session_id": "s1"})


async def test_a_session_without_a_summary_or_with_one_message_leaves_none(room: Room) -> None:
    await live(room, talk("s1", "A house, please.", "With blue tiles."))
    await live(room, talk("s2", "A house, please.", summary=HOUSE))
    assert await episodes(room) == []


async def test_it_is_trusted_no_further_than_what_the_session_read(room: Room) -> None:
    script = talk("s1", "A house, please.", "With blue tiles.")
    script.events.pop()
    script.tool("c1", "choir.web.browse", {"text": "Buy red tiles."}, turn="t9")
    script.stop(HOUSE)
    await live(room, script)
    assert [trust for _, trust, _ in await episodes(room)] == [10]


async def test_it_comes_once_however_often_the_end_is_told(room: Room) -> None:
    script = talk("s1", "A house, please.", "With blue tiles.", summary=HOUSE)
    for _ in range(2):
        await live(room, script)
    assert len(await episodes(room)) == 1


async def test_erasing_a_message_or_the_session_takes_it_along(room: Room) -> None:
    for session in ("s1", "s2"):
        await live(room, talk(session, "A house, please.", "With blue tiles.", summary=HOUSE))
    unit = "SELECT id FROM choir_main.memory_documents WHERE session_id = 's1' LIMIT 1"
    first = await room.database.fetchval(unit)
    async with as_agent(room.database, "main") as held:
        await erase(held, "main", [first])
    assert len(await episodes(room)) == 1
    await Eraser(room.database, room.spaces).erase(EraseSession(agent_id="main", session_id="s2"))
    assert await episodes(room) == []
