"""What one person told an agent is not found in the conversations of another one."""

from collections.abc import Sequence
from typing import Any

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import Conflict, NotFound
from choir_common.wire.events import CoreStarted, CoreStopped, Reply, UserMessageStarted
from choir_common.wire.memory_recall import ReadHints, ReadReminders
from choir_common.wire.memory_search import MemoryReader
from choir_common.wire.memory_sessions import ArchivePage
from choir_memory.reminders.service import ReminderService
from choir_memory.tool_errors.service import ToolErrorService
from tests.service.memory.conftest import Room
from tests.service.memory.derived import SetClock, answer, propose
from tests.service.memory.session_archive import make_session_archive
from tests.service.memory.test_facts import make
from tests.service.memory.test_grains import make as make_consolidation
from tests.service.memory.test_search import embed_all
from tests.support.sessions import BEGAN, LogBuilder

ADA = MemoryReader(conversations=("console", "tablet"), with_older=True)
BOB = MemoryReader(conversations=("phone",))
ADA_UNLINKED = MemoryReader(conversations=("console",), with_older=True)
TIERS = ("mid_term", "long_term_summary", "long_term_detail", "grain_summary")
LANES = {"console": "edge", "tablet": "edge:tablet", "phone": "edge:phone"}


def make_log() -> LogBuilder:
    """Build a session of two people: Ada at the console and at her tablet, Bob on the phone."""
    log = LogBuilder()
    log.start()
    messages = {
        "console": ("I like plain tea best.", "My plans for the kiosk are ready."),
        "tablet": ("My surprise for Bob is an otter.", "The otter is for his birthday."),
        "phone": ("My illness is called walrus fever.", "The walrus fever began in May."),
    }
    for dm, texts in messages.items():
        for number, text in enumerate(texts):
            turn = f"{dm}{number}"
            message = UserMessageStarted(turn_id=turn, inbox_id=turn, dm=dm, text=text)
            log.add(message, LANES[dm])
            reply = Reply(turn_id=turn, dm=dm, text=f"Understood: {text}", kind="answer")
            log.add(reply, LANES[dm])
    task = {"task_spec": "look up walrus fever", "call_id": "c0", "dm": "phone"}
    job = CoreStarted(job_id="j1", job_name="look", **task)
    log.add(job, "edge:phone")
    log.tool_call("c1", "choir.shell.run", {"command": "walrus --fever"}, "j1", "core:look")
    failure = {"code": "failed", "message": "No such command: walrus"}
    log.result("c1", "choir.shell.run", failure, "j1", "core:look", status="error")
    stopped = CoreStopped(job_id="j1", job_name="look", outcome="error", reason="no walrus")
    log.add(stopped, "core:look")
    tea = [("Tea", "Ada likes plain tea, and a kiosk.")]
    further = {"edge:phone": "Bob has walrus fever since May, and asks for a hospital."}
    log.stop("Ada talked about tea and a kiosk.", tea, further)
    return log


async def archive(room: Room, readers: Sequence[MemoryReader]) -> None:
    """Store the session of two people as control sends it, and make everything that is derived from it."""
    page = make_log().page(keep=0)
    full_page = ArchivePage(**{**dict(page), "home_dm": "console", "readers": tuple(readers)})
    await make_session_archive(room.database, room.spaces, room.queue).take(full_page)
    await room.database.execute(
        "UPDATE choir_main.memory_documents SET created_at = created_at - interval '5 minutes'"
    )
    tea = propose(text="The user likes plain tea.", object="plain tea", quote="I like plain tea")
    otter = propose(
        text="The user has an otter for Bob.",
        object="an otter",
        quote="surprise for Bob is an otter",
    )
    walrus = propose(
        text="The user has walrus fever.",
        object="walrus fever",
        quote="illness is called walrus fever",
    )
    both = [{**tea, "source": 1}, {**otter, "source": 5}]
    answers = (
        [answer(*both), answer(walrus)] if readers else [answer(*both, {**walrus, "source": 9})]
    )
    extraction, model = make(room, *answers)
    assert await extraction.run_agent("main") == 1
    assert len(model.asked) == len(answers)
    for reader, (_, material) in zip(readers, model.asked, strict=False):
        assert ("walrus" in material) == (reader is BOB) and ("otter" in material) == (
            reader is ADA
        )
    await make_consolidation(room, "2027-06-01").run_agent("main")
    await embed_all(room)


async def everything(room: Room, reader: MemoryReader | None, words: str) -> dict[str, str]:
    """Return the texts that a reader gets, by the way of access."""
    results: dict[str, list[str]] = {}
    for tier in TIERS:
        listing = {"store": "session", "tiers": (tier,), "since": "2020-01-01", "limit": 50}
        listing |= {"grain": "day"} if tier == "grain_summary" else {}
        results[f"list {tier}"] = await ask(room, "", reader=reader, **listing)
        results[tier] = await ask(room, words, reader=reader, store="session", tiers=(tier,))
    everywhere: dict[str, Any] = {"include": ("held", "retired", "expired"), "min_score": 0.0}
    results["knowledge"] = await ask(room, words, reader=reader, **everywhere)
    results["names"] = await ask(room, words, reader=reader, kinds=("entity",), **everywhere)
    results["errors"] = await ask(room, words, reader=reader, kinds=("error",), **everywhere)
    session = {"store": "session", "mode": "session_detail", "session_id": "s1", "limit": 50}
    results["session"] = await ask(room, "", reader=reader, **session)
    results["context"] = await ask(
        room, "kiosk", reader=reader, store="session", context=True, limit=50
    )
    reminding = ReminderService(
        database=room.database, spaces=room.spaces, search=room.recall, clock=SystemClock()
    )
    request = ReadReminders(
        agent_id="main", session_id="now", text=f"Do you remember {words}?", reader=reader
    )
    results["reminders"] = [it.text for it in (await reminding.remind(request)).reminders]
    errors = ToolErrorService(room.database, room.spaces, SetClock(BEGAN))  # later it is expired
    message = await room.database.fetchval(
        "SELECT evidence FROM choir_main.knowledge_documents WHERE kind = 'error'"
    )
    failure = ReadHints(agent_id="main", tool="choir.shell.run", said=message, reader=reader)
    results["hints"] = [it.said for it in (await errors.hints(failure)).hints]
    return {name: "\n".join(texts) for name, texts in results.items()}


async def ask(room: Room, words: str, **more: Any) -> list[str]:
    """Return the texts of the hits, with their neighbours and the words that were taken for misspelt ones."""
    answer_ = await room.ask(words, **more)
    texts = [str(similar) for similar in answer_.similar_words.values()]
    for hit in answer_.hits:
        texts += [hit.text, *(it.text for it in (*hit.before, *hit.after))]
    return texts


def ways(results: dict[str, str], word: str) -> set[str]:
    """Return the ways of access by which a word was found."""
    return {name for name, text in results.items() if word in text}


async def test_a_person_finds_the_own_conversations_and_no_others(room: Room) -> None:
    await archive(room, (ADA, BOB))
    words = "walruss fever otter tea"
    ada, bob = await everything(room, ADA, words), await everything(room, BOB, words)
    assert ways(ada, "walrus") == set()
    assert ways(bob, "otter") | ways(bob, "tea") | ways(bob, "kiosk") == set()
    # each has the own memory in every form
    own = {"list long_term_detail", "list long_term_summary", "list grain_summary"}
    own |= {"long_term_detail", "long_term_summary", "grain_summary"}
    own |= {"knowledge", "session", "reminders"}
    assert ways(ada, "otter") >= own
    assert ways(bob, "walrus") >= own | {"errors", "hints"}
    # the agent's own summary of one conversation, while that of the tablet is quoted
    assert (
        "hospital" in bob["list long_term_summary"]
        and "user: My illness" not in bob["list long_term_summary"]
    )
    assert "user: My surprise" in ada["list long_term_summary"]
    for reader, count in ((BOB, 1), (ADA, 0)):
        episodes = await ask(room, "hospital", reader=reader, kinds=("episode",), min_score=0.0)
        assert sum("hospital" in text for text in episodes) == count
    assert ways(ada, "hospital") == set()
    # the link between the console and the tablet is taken back
    assert ways(await everything(room, ADA_UNLINKED, words), "otter") == set()
    # operators, and agents whose people share memory
    every = await everything(room, None, words)
    assert ways(every, "walrus") >= own | {"errors", "hints"} and ways(every, "otter") >= own


async def test_shared_memory_is_learned_and_summed_up_together(room: Room) -> None:
    await archive(room, ())
    results = await everything(room, None, "walrus otter")
    assert ways(results, "walrus") & ways(results, "otter") >= {"knowledge", "grain_summary"}
    # what was made of both is nobody's alone when memory is separate later, until it is made again
    assert "grain_summary" not in ways(await everything(room, ADA, "otter"), "otter")
    await room.database.execute(
        "UPDATE choir_memory.spaces SET readers = $1::text::jsonb",
        f"[{ADA.model_dump_json()}, {BOB.model_dump_json()}]",
    )
    await make_consolidation(room, "2027-06-01").run_agent("main")
    ada = await everything(room, ADA, "otter walrus")
    assert "grain_summary" in ways(ada, "otter") and ways(ada, "walrus") == set()


async def test_older_memory_is_that_of_the_home_conversations_person(room: Room) -> None:
    await room.put("The boiler is from 1999.", key="boiler")
    await room.database.execute("UPDATE choir_main.knowledge_documents SET conversations = NULL")
    await room.put("The shop opens at nine.")
    assert await ask(room, "boiler", mode="text", reader=ADA)
    assert not await ask(room, "boiler", mode="text", reader=BOB)
    # what was never said in a conversation belongs to all
    assert await ask(room, "shop", mode="text", reader=BOB)


async def test_what_a_person_does_not_find_it_cannot_change(room: Room) -> None:
    request = {"conversation": "phone", "reader": BOB}
    note = await room.put("Walrus fever since May.", key="illness", **request)
    shared = await room.put("The shop opens at nine.", key="shop")
    by_ada: dict[str, Any] = {"conversation": "console", "reader": ADA}
    with pytest.raises(Conflict, match="another person") as refused:
        await room.put("Tea.", key="illness", operation="update", **by_ada)
    assert "Walrus" not in str(refused.value)
    for change in (
        {"text": None, "operation": "delete", "document_id": note.document_id},
        {"text": "Tea.", "operation": "insert", "supersedes": ("illness",)},
    ):
        with pytest.raises(NotFound):
            await room.put(**{**by_ada, **change})
    await room.put("It opens at ten, Ada says.", key="shop", operation="update", **by_ada)
    assert shared.document_id and not await ask(room, "shop opens", mode="text", reader=BOB)
    assert await ask(room, "opens", mode="text", reader=ADA)
