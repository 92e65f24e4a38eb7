"""A part of a memory is shown, and then exactly that is erased: words, a session, a period, its lessons."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.wire.memory_forget import ForgetMemory, ForgetResult, ForgetSelection
from choir_memory.admin.forget import MemoryForgetter
from choir_memory.facts.store import FactStore, TurnPosition
from choir_memory.schema.store import agent_transaction
from choir_memory.sessions.archive import SessionArchive
from choir_memory.summaries.store import SummaryStore
from tests.service.memory.conftest import Room
from tests.service.memory.derived import live_turns
from tests.service.memory.operators import audited
from tests.service.memory.session_archive import make_session_archive
from tests.service.memory.test_erase import add, left, link
from tests.support.sessions import BEGAN, LogBuilder, conversation_log

LONG_AGO = TurnPosition(datetime(2000, 1, 1, tzinfo=UTC), "", -1)


@dataclass
class Desk:
    room: Room
    forgetter: MemoryForgetter
    archive: SessionArchive

    async def preview(self, **selection: object) -> ForgetResult:
        request = ForgetMemory(agent_id="main", selection=ForgetSelection(**selection))
        return await self.forgetter.forget(request)

    async def erase(self, stopping: str | None = None, **selection: object) -> ForgetResult:
        """Look at the preview and carry it out."""
        shown = await self.preview(**selection)
        chosen = ForgetSelection(**selection, expected_digest=shown.digest)
        request = ForgetMemory(agent_id="main", selection=chosen, actor="dm:ada", stopping=stopping)
        done = await self.forgetter.forget(request)
        assert done.erased and done.documents == shown.documents
        return done

    async def take(self, script: LogBuilder) -> None:
        await self.archive.take(script.page(keep=10))

    async def units(self) -> list[str]:
        rows = await self.room.database.fetch(
            "SELECT text FROM choir_main.memory_documents ORDER BY session_id, chunk_index"
        )
        return [row["text"] for row in rows]

    async def value(self, sql: str, *arguments: object) -> object:
        return await self.room.database.fetchval(sql, *arguments)


@pytest.fixture
async def desk(room: Room) -> Desk:
    await room.spaces.ensure("main")
    return Desk(
        room,
        MemoryForgetter(room.database, room.spaces, SystemClock()),
        make_session_archive(room.database, room.spaces, room.queue),
    )


async def learn(room: Room, text: str, *sources: UUID, **columns: object) -> UUID:
    """Put a fact that rests on these turns."""
    fact = await add(room, text, kind="fact", **columns)
    await link(room, fact, "evidence", *sources)
    return fact


async def test_a_preview_shows_what_would_go_and_changes_nothing(desk: Desk) -> None:
    room = desk.room
    (turn, other) = await live_turns(
        room.database,
        [("2026-03-01 12:00", "user", "I live in Porto."), ("2026-03-01 12:01", "user", "Hi.")],
    )
    alone = await learn(room, "The user lives in Portugal.", turn)
    both = await learn(room, "The user talks.", turn, other)
    note = await add(room, "Post goes to Porto.")
    shown = await desk.preview(words="porto")
    assert not shown.erased and shown.total == 3 and shown.supported == 1
    assert shown.counts == {"fact": 1, "note": 1, "turn": 1}
    by_id = {one.document_id: one.derived for one in shown.documents}
    assert by_id == {str(turn): False, str(note): False, str(alone): True}
    assert shown.sessions == ("s1",)
    assert await left(room) == {alone, both, note}
    await desk.erase(words="porto")
    assert await left(room) == {both}
    assert await desk.units() == ["Hi."]
    (entry,) = [one for one in await audited(room) if one[1] == "forgotten"]
    assert entry[0] == "dm:ada" and entry[2] == {str(turn), str(alone), str(note)}


async def test_all_words_must_be_there_and_stems_count(desk: Desk) -> None:
    await add(desk.room, "The red bike was painted.")
    await add(desk.room, "The red house.")
    assert (await desk.preview(words="red painting")).total == 1
    assert (await desk.preview(words="red")).total == 2
    assert (await desk.preview(words="green")).total == 0
    with pytest.raises(InvalidRequest, match="no word"):
        await desk.preview(words="?!")


async def test_a_memory_that_changed_since_the_preview_is_left_alone(desk: Desk) -> None:
    await add(desk.room, "Porto is a city.")
    shown = await desk.preview(words="porto")
    await add(desk.room, "Porto is also a wine.")
    chosen = ForgetSelection(words="porto", expected_digest=shown.digest)
    with pytest.raises(Conflict, match="changed since the preview"):
        await desk.forgetter.forget(ForgetMemory(agent_id="main", selection=chosen))
    assert len(await left(desk.room)) == 2


async def test_a_forgotten_session_leaves_nothing_and_nothing_of_it_is_stored_later(
    desk: Desk,
) -> None:
    script = LogBuilder()
    script.start()
    script.user("My number is 4711.")
    await desk.archive.take(script.page())
    await desk.room.put("Number 4711", session_id="s1")
    kept = await desk.room.put("Another session's note", session_id="s2")
    await desk.erase(session_id="s1")
    script.reply("4711, noted.")
    script.stop("The user told a number.")
    await desk.archive.take(script.page(2, keep=10))
    assert await desk.units() == []
    assert await left(desk.room) == {UUID(str(kept.document_id))}


async def test_a_session_can_be_forgotten_before_memory_has_any_of_it(desk: Desk) -> None:
    assert (await desk.erase(session_id="s1")).total == 0
    await desk.take(conversation_log("s1", "My number is 4711.", summary="A number."))
    assert await desk.units() == [] and await left(desk.room) == set()


async def test_a_period_is_forgotten_also_where_its_events_come_later(desk: Desk) -> None:
    script = LogBuilder()
    script.start()
    script.user("Old and fine.", "t1")
    script.reply("Yes.", "t1")
    since = BEGAN + timedelta(seconds=len(script.events))
    script.user("My password is hunter2.", "t2")
    script.reply("I keep hunter2.", "t2")
    until = BEGAN + timedelta(seconds=len(script.events))
    script.user("New and fine.", "t3")
    script.stop("The password is hunter2.")
    await desk.archive.take(script.page(0, 4))
    await desk.erase(since=since, until=until)
    await desk.archive.take(script.page(4, keep=10))
    assert await desk.units() == ["Old and fine.", "Yes.", "New and fine."]
    assert await desk.value("SELECT summary FROM choir_memory.sessions") == ""
    assert await left(desk.room) == set()


async def test_of_a_session_that_is_stopped_for_it_nothing_after_the_beginning_is_stored(
    desk: Desk,
) -> None:
    # what the agent still says while it stops has a later time than the erasure
    script = LogBuilder(started_at=datetime.now(UTC) + timedelta(hours=1))
    script.start()
    script.user("Old and fine.")
    await desk.erase(since=script.started_at + timedelta(seconds=2), stopping="s1")
    script.reply("About hunter2, much later.")
    await desk.take(script)
    assert await desk.units() == ["Old and fine."]


async def test_the_trust_of_what_stays_still_counts_what_was_read_in_the_period(
    desk: Desk,
) -> None:
    script = LogBuilder()
    script.start()
    script.user("Read it.")
    since = BEGAN + timedelta(seconds=len(script.events))
    script.tool("c1", "choir.web.browse", {"text": "a page"})
    until = BEGAN + timedelta(seconds=len(script.events))
    script.reply("The page says so.")
    await desk.erase(since=since, until=until)
    await desk.take(script)
    trust = "SELECT trust FROM choir_main.memory_documents WHERE text = 'The page says so.'"
    assert await desk.units() == ["Read it.", "The page says so."]
    assert await desk.value(trust) == 10


async def test_a_reset_takes_what_was_said_and_keeps_what_was_learned(desk: Desk) -> None:
    room = desk.room
    (turn,) = await live_turns(room.database, [("2026-03-01 12:00", "user", "I live in Porto.")])
    fact = await learn(room, "The user lives in Porto.", turn, evidence="I live in Porto")
    note = await room.put("Porto", session_id="s1")
    await desk.erase(scope="said", session_id="s1")
    assert await desk.units() == []
    assert await left(room) == {fact, UUID(str(note.document_id))}
    sql = "SELECT evidence FROM choir_main.knowledge_documents WHERE id = $1"
    assert await desk.value(sql, fact) is None, "the quotation is what was said"
    assert await desk.value("SELECT count(*) FROM choir_main.links") == 0


async def test_undo_takes_what_one_session_taught_and_restores_what_that_replaced(
    desk: Desk,
) -> None:
    room = desk.room
    (first,) = await live_turns(
        room.database, [("2026-03-01 12:00", "user", "I live in Rome.")], session="s1"
    )
    (second,) = await live_turns(
        room.database, [("2026-03-02 12:00", "user", "I live in Oslo.")], session="s2"
    )
    rome = await learn(room, "The user lives in Rome.", first)
    oslo = await learn(room, "The user lives in Oslo.", second)
    shared = await learn(room, "The user lives in Europe.", first, second)
    await link(room, oslo, "supersedes", rome)
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET status = 'retired', retired_at = now(), "
        "valid_to = now() WHERE id = $1",
        rome,
    )
    note = await room.put("Moved to Oslo", session_id="s2")
    shown = await desk.preview(scope="learned", session_id="s2")
    assert (shown.total, shown.supported, shown.restored) == (2, 1, 1)
    assert {one.document_id for one in shown.documents} == {str(oslo), note.document_id}
    await desk.erase(scope="learned", session_id="s2")
    assert await left(room) == {rome, shared}
    row = await room.database.fetchrow(
        "SELECT status, valid_to FROM choir_main.knowledge_documents WHERE id = $1", rome
    )
    assert row is not None and dict(row) == {"status": "active", "valid_to": None}
    assert await desk.units() == ["I live in Rome.", "I live in Oslo."]


async def test_what_was_undone_is_not_learned_or_summed_up_again(desk: Desk) -> None:
    room = desk.room
    await live_turns(room.database, [("2026-03-01 12:00", "user", "Lies.")], session="s1")
    await live_turns(room.database, [("2026-03-01 13:00", "user", "Truth.")], session="s2")
    await desk.erase(scope="learned", session_id="s1")
    await room.database.execute(
        "UPDATE choir_main.memory_documents SET created_at = now() - interval '1 hour'"
    )
    async with agent_transaction(room.database, "main") as connection:
        turns = await FactStore(connection, "main").read_turns(LONG_AGO, 50, 10)
        summaries = SummaryStore(connection, "main")
        (due,) = await summaries.due("day", datetime(2026, 3, 3, tzinfo=UTC), wants_model=False)
        sources = await summaries.read(due)
    assert [one.turn.text for one in turns] == ["Truth."]
    assert [one.text for one in sources] == ["Truth."]


async def test_undo_of_a_period_takes_facts_whose_messages_are_gone(desk: Desk) -> None:
    room = desk.room
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    old = await add(room, "From long ago.", kind="fact", happened_at=at - timedelta(days=9))
    gone = await add(room, "From that day.", kind="fact", happened_at=at)
    by_hand = await add(room, "By an operator.", happened_at=at)
    await desk.erase(scope="learned", since=at, until=at + timedelta(hours=1))
    assert await left(room) == {old, by_hand}, f"{gone} alone is of that hour"


async def test_undo_of_a_document_keeps_the_document(desk: Desk) -> None:
    room = desk.room
    source = await add(room, "What he said.")
    lesson = await learn(room, "A lesson.", source)
    await desk.erase(scope="learned", document=str(source))
    assert await left(room) == {source}, f"{lesson} rested on it"
    with pytest.raises(NotFound):
        await desk.preview(scope="learned", document="nothing.of.that.name")


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({}, "Name what to erase"),
        ({"document": "x", "words": "y"}, "either a document"),
        ({"words": "y", "scope": "said"}, "Only a session"),
        (
            {"since": BEGAN, "until": BEGAN - timedelta(days=1)},
            "ends before it begins",
        ),
    ],
)
async def test_a_selection_that_makes_no_sense_is_refused(
    desk: Desk, selection: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidRequest, match=said):
        await desk.preview(**selection)
