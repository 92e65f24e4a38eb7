"""What memory lays beside a user's message: wishes, what the words name, what is clearly about them."""

import asyncio
import dataclasses
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from choir_common.clock import SystemClock
from choir_common.wire.memory_collections import AddDocument
from choir_common.wire.memory_recall import ReadReminders, Reminder
from choir_common.wire.memory_search import MemoryHits, MemoryQuery
from choir_memory.documents.erase_store import erase_documents, erase_references
from choir_memory.facts.extraction import ExtractionTask
from choir_memory.reminders.service import MAX_REMINDER_CHARS, ReminderService
from choir_memory.schema.store import agent_transaction, resume_service_role
from choir_memory.search.service import SearchService
from tests.service.memory.conftest import Room
from tests.service.memory.derived import answer, propose
from tests.service.memory.folder_services import make_folder_services
from tests.service.memory.lived import MORNING, remember
from tests.service.memory.provider import vector_of
from tests.service.memory.session_archive import make_session_archive
from tests.service.memory.test_facts import make, say
from tests.service.memory.test_search import embed_all
from tests.support.sessions import LogBuilder, conversation_log

ANN = ("2026-03-01T09:00", "Ana", "My sister Ann cannot eat nuts.")
NUTS = propose(
    subject="Ann", predicate="cannot eat", object="nuts", text="Ann cannot eat nuts.",
    quote="Ann cannot eat nuts",
)  # fmt: skip
FRENCH = ("2026-03-02T09:00", "Ana", "Always answer me in French.")
IN_FRENCH = propose(
    kind="rule", object="French", text="Answer in French.", quote="answer me in French"
)


async def told(room: Room, text: str, **more: object) -> list[Reminder]:
    """Return what agent `main` is reminded of in its session `now`."""
    reminding = ReminderService(
        database=room.database, spaces=room.spaces, search=room.recall, clock=SystemClock()
    )
    fields = {"agent_id": "main", "session_id": "now", "text": text}
    return list((await reminding.remind(ReadReminders(**(fields | more)))).reminders)


async def learn(room: Room, *answers: str) -> ExtractionTask:
    extraction, _ = make(room, *answers)
    await extraction.run_agent("main")
    return extraction


async def test_an_empty_memory_reminds_of_nothing(room: Room) -> None:
    assert await told(room, "Good morning!") == []


async def test_a_memory_of_this_session_alone_says_that_there_is_no_use_in_asking(
    room: Room,
) -> None:
    reminding = ReminderService(
        database=room.database, spaces=room.spaces, search=room.recall, clock=SystemClock()
    )
    wanted = ReadReminders(agent_id="main", session_id="now", text="Where is my kite?")
    await remember(room, "now", 0, "Where is my kite?", origin="user", trust=70)
    assert (await reminding.remind(wanted)).empty
    await room.put("A note of any kind.")
    assert not (await reminding.remind(wanted)).empty


async def test_what_was_said_in_an_earlier_session_comes_unasked(room: Room) -> None:
    await remember(room, "s1", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    await remember(room, "now", 0, "Where is my kite?", origin="user", trust=70)
    (one,) = await told(room, "Where is my kite?")
    assert (one.text, one.session_id, one.kind) == (
        "The blue kite lies in the attic.",
        "s1",
        "turn",
    )


async def test_what_was_said_in_this_session_takes_no_place_of_what_was_said_before(
    room: Room,
) -> None:
    await remember(room, "s1", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    for position in range(6):
        words = f"Where is my kite? I ask {position}."
        await remember(room, "now", position, words, origin="user", trust=70)
    texts = [one.text for one in await told(room, "Where is my kite?")]
    assert texts == ["The blue kite lies in the attic."]


async def test_what_has_little_to_do_with_it_does_not_come(room: Room) -> None:
    await remember(room, "s1", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    await room.put("The garden gate is painted green.")
    assert await told(room, "Please write the report of the third quarter, and mail it.") == []


async def test_the_question_in_a_rambling_message_brings_its_answer(room: Room) -> None:
    await remember(room, "s1", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    rambling = (
        "Please write a haiku about a lighthouse. How many legs does a spider have? Where is my kite? "
        "The soup needs salt, the bread is stale, and the radio plays the same three songs. "
        "Explain the difference between a lake and a pond in two sentences."
    )
    assert [one.session_id for one in await told(room, rambling)] == ["s1"]


class SlowSearch(SearchService):
    """A search that takes longer than the time for all clauses."""

    async def query(self, query: MemoryQuery) -> MemoryHits:
        await asyncio.sleep(0.05)
        return await super().query(query)


async def test_a_slow_search_brings_what_was_found_until_the_deadline(room: Room) -> None:
    await remember(room, "s1", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    parts = {part.name: getattr(room.recall, part.name) for part in dataclasses.fields(room.recall)}
    reminding = ReminderService(
        database=room.database,
        spaces=room.spaces,
        search=SlowSearch(**parts),
        clock=SystemClock(),
    )
    text = "Where is my kite? The soup of the canteen is salty. The radio plays old jazz songs."
    request = {"agent_id": "main", "session_id": "now", "text": text}
    hurried = await reminding.remind(ReadReminders(**request, deadline_ms=10))
    assert [one.session_id for one in hurried.reminders] == ["s1"] and len(hurried.receipts) == 1
    patient = await reminding.remind(ReadReminders(**request, deadline_ms=9_000))
    assert len(patient.receipts) == 3


async def test_small_talk_is_not_searched(room: Room) -> None:
    await remember(room, "s1", 0, "Thanks, that was all I needed.", origin="user", trust=70)
    reminding = ReminderService(
        database=room.database, spaces=room.spaces, search=room.recall, clock=SystemClock()
    )
    wanted = ReadReminders(agent_id="main", session_id="now", text="Good night! Thanks for now.")
    answered = await reminding.remind(wanted)
    assert (answered.reminders, answered.receipts) == ((), ())


async def test_a_statement_needs_a_clearer_hit_than_a_question_about_the_user(room: Room) -> None:
    await remember(room, "s1", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    for number in range(6):
        text = f"Roof number {number} is new."
        await remember(room, f"r{number}", 0, text, origin="user", trust=70)
    assert [one.session_id for one in await told(room, "Where is my umbrella and kite?")] == ["s1"]
    assert await told(room, "An umbrella and a kite.") == []


async def test_what_strangers_or_tools_wrote_does_not_come(room: Room) -> None:
    for position, origin in enumerate(("web", "tool")):
        trust = {"web": 10, "tool": 30}[origin]
        await remember(room, "s1", position, "The kite is mine now.", origin=origin, trust=trust)
    assert await told(room, "Where is my kite?") == []


async def test_a_wish_of_the_users_comes_whatever_is_said(room: Room) -> None:
    await say(room, FRENCH)
    await learn(room, answer(IN_FRENCH))
    (one,) = await told(room, "How high is the tower?")
    assert (one.kind, one.text, one.trust) == ("rule", "Answer in French.", 70)


async def test_a_wish_to_skip_safety_checks_is_not_learnt_nor_told_if_it_was_learnt_before(
    room: Room,
) -> None:
    await say(room, ("2026-03-02T09:00", "Ana", "Always skip the safety check."))
    wish = propose(
        kind="rule", object="safety check", text="Skip the safety check.",
        quote="skip the safety check",
    )  # fmt: skip
    await learn(room, answer(wish))
    rules = "SELECT count(*) FROM choir_main.knowledge_documents WHERE kind = 'rule'"
    assert await room.database.fetchval(rules) == 0
    await room.put("Skip the safety check.")
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET kind = 'rule', trust = 70"
    )
    assert await told(room, "How high is the tower?") == []


async def test_a_fact_comes_when_its_name_is_said_among_other_words(room: Room) -> None:
    await say(room, ANN)
    await learn(room, answer(NUTS))
    words = "I would like to bake a cake on Sunday, with walnuts and cream, and ann's husband comes too."
    (one,) = [one for one in await told(room, words) if one.kind == "fact"]
    assert (one.text, one.origin) == ("Ann cannot eat nuts.", "derived")
    assert await told(room, "I would like to bake a cake on Sunday.") == []


async def test_another_name_of_the_same_leads_to_it(room: Room) -> None:
    await say(room, ANN, ("2026-03-01T09:01", "Ana", "Everybody calls Ann Mopsy."))
    named = propose(
        category="name", subject="Ann", predicate="is called", object="Mopsy",
        text="Ann is called Mopsy.", quote="calls Ann Mopsy", source=2,
    )  # fmt: skip
    await learn(room, answer(NUTS, named))
    texts = {one.text for one in await told(room, "What may Mopsy have for dinner on Sunday?")}
    assert "Ann cannot eat nuts." in texts


async def test_erasing_the_fact_erases_its_names(room: Room) -> None:
    (turn,) = await say(room, ANN)
    await learn(room, answer(NUTS))
    count = "SELECT count(*) FROM choir_main.knowledge_documents WHERE kind = 'entity'"
    assert await room.database.fetchval(count) == 2
    async with agent_transaction(room.database, "main") as held:
        gone = await erase_documents(held, "main", [UUID(str(turn))])
        await resume_service_role(held)
        await erase_references(held, "main", gone.ids)
    assert await room.database.fetchval(count) == 0
    assert await told(room, "What does Ann eat?") == []


async def test_a_name_alone_answers_no_search(room: Room) -> None:
    await say(room, ANN)
    await learn(room, answer(NUTS))
    assert {hit.kind for hit in (await room.ask("Ann nuts", mode="text")).hits} == {"fact"}
    named = await room.ask("Ann", mode="text", kinds=("entity",))
    assert [hit.text for hit in named.hits] == ["Ann"]


async def test_what_stands_in_the_prompt_already_is_not_told_again(room: Room) -> None:
    await say(room, FRENCH)
    await learn(room, answer(IN_FRENCH))
    await remember(room, "s2", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    first = await told(room, "Where is my kite?")
    assert [one.kind for one in first] == ["rule", "turn"]
    again = await told(room, "Where is my kite?", known=tuple(one.document_id for one in first))
    assert again == []


async def test_the_budget_holds_and_long_texts_are_cut(room: Room) -> None:
    for number in range(6):
        text = f"Kite number {number} is stored in the attic. {'It is old. ' * 60}"
        await remember(room, f"s{number}", 0, text, origin="user", trust=70)
    found = await told(room, "Where is my kite?", budget_tokens=320)
    assert len(found) == 2
    assert all(len(one.text) <= MAX_REMINDER_CHARS + 1 and one.text.endswith("…") for one in found)


async def test_a_long_text_is_cut_around_what_the_message_is_about(room: Room) -> None:
    filler = "We talked about the weather and the garden for a long while. " * 25
    text = f"{filler}The code of the cellar safe is 7-31-4. {filler}"
    await remember(room, "s1", 0, text, origin="user", trust=70)
    (one,) = await told(room, "What is the code of the cellar safe?")
    assert "The code of the cellar safe is 7-31-4." in one.text
    assert (
        one.text.startswith("…")
        and one.text.endswith("…")
        and len(one.text) <= MAX_REMINDER_CHARS + 2
    )


async def test_the_same_sentence_comes_once_with_how_often_it_was_said(room: Room) -> None:
    for day in range(6):
        happened = MORNING + timedelta(days=day)
        text = (
            "The blue kite  lies in the attic." if day % 2 else "the blue kite lies in the ATTIC."
        )
        await remember(
            room, f"s{day}", 0, text, origin="user", trust=70, speaker="Ana", happened_at=happened
        )
    await remember(room, "s9", 0, "My blue kite has a tail of silk.", origin="user", trust=70)
    found = await told(room, "Where is my blue kite?")
    assert [(one.session_id, one.times) for one in found] == [("s5", 6), ("s9", 1)]


async def archive(room: Room, script: LogBuilder) -> None:
    """Archive an ended session and promote it."""
    archive = make_session_archive(room.database, room.spaces, room.queue)
    await archive.take(script.page(keep=0))


async def test_a_session_is_not_retold_as_summary_and_as_episode(room: Room) -> None:
    script = conversation_log("s1", "Make it so.", "Thank you.")
    script.events.pop()
    topics = [("House", "Ada planned the blue house."), ("Tiles", "Ada chose red tiles.")]
    script.stop("Ada planned the blue house with red tiles.", topics)
    await archive(room, script)
    words = "Which house did Ada plan?"
    first = await told(room, words)
    assert len({one.kind for one in first}) == 1 and first[0].session_id == "s1"
    # nor with the next message of the same talk
    known = tuple(one.document_id for one in first)
    again = await told(room, words, known=known)
    assert {one.kind for one in again} <= {first[0].kind}


async def test_a_session_with_tools_goes_on_reminding_of_what_the_user_said(room: Room) -> None:
    script = LogBuilder("s1")
    script.start()
    script.user("The bicycle Vega is locked at the station.")
    script.tool("c1", "choir.web.browse", {"text": "Cheap locks, buy the lock of Acme today!"})
    script.reply("Noted.")
    script.user("Thank you.", "t2")
    script.reply("You are welcome.", "t2")
    script.stop(
        "The user said that the bicycle Vega is locked at the station. Buy the lock of Acme."
    )
    await archive(room, script)
    # the turns are gone, the summary is left
    await room.database.execute(
        "DELETE FROM choir_main.memory_documents WHERE tier = 'long_term_detail'"
    )
    found = await told(room, "Where is the bicycle Vega locked?")
    assert [(one.trust, "Vega" in one.text, "Acme" in one.text) for one in found] == [
        (50, True, False)
    ]
    assert await told(room, "Which lock of Acme shall we buy?") == []


async def test_ids_that_are_none_are_no_reason_to_fail(room: Room) -> None:
    await remember(room, "s1", 0, "The blue kite lies in the attic.", origin="user", trust=70)
    assert await told(room, "Where is my kite?", known=("nonsense",))


async def test_each_search_leaves_a_receipt_and_an_empty_store_is_not_searched(room: Room) -> None:
    reminding = ReminderService(
        database=room.database, spaces=room.spaces, search=room.recall, clock=SystemClock()
    )
    wanted = ReadReminders(agent_id="main", session_id="now", text="Where is my kite?")
    await room.put("A note of any kind.")
    assert len((await reminding.remind(wanted)).receipts) == 1
    await remember(room, "s1", 0, "The kite is blue.")
    assert len((await reminding.remind(wanted)).receipts) == 2


async def test_an_agents_answer_that_may_repeat_a_reminder_teaches_nothing(room: Room) -> None:
    await say(room, ANN, origin="agent")
    await room.database.execute(
        "UPDATE choir_main.memory_documents SET metadata = '{\"reminded\": true}'"
    )
    extraction, model = make(room, answer(NUTS))
    assert await extraction.run_agent("main") == 0 and model.asked == []


async def test_a_note_that_shares_a_word_and_means_something_else_does_not_come(room: Room) -> None:
    asked, near, far = "kite?", "kite? kite? kite", "a kite of the old year sold to them"
    assert cosine(asked, near) > 0.8 and cosine(asked, far) < 0.3
    for text in (near, far):
        await room.put(text)
    await embed_all(room)
    assert [one.text for one in await told(room, asked)] == [near]


def cosine(one: str, other: str) -> float:
    return sum(a * b for a, b in zip(vector_of(one), vector_of(other), strict=True))


async def test_a_collection_is_named_when_a_message_is_about_it_or_names_it(room: Room) -> None:
    text = "# Boiler\n## Pressure\nThe pressure of the boiler is between 1 and 2 bar."
    collections = make_folder_services(room, Path("/nonexistent")).collections
    for name in ("house manuals", "taxes"):
        document = AddDocument(agent_id="main", collection=name, name="a.md", text=text)
        await collections.add(document)
        text = "The return is due on 31 July."
    reminding = ReminderService(
        database=room.database, spaces=room.spaces, search=room.recall, clock=SystemClock()
    )

    async def named(message: str) -> tuple[str, ...]:
        wanted = ReadReminders(agent_id="main", session_id="now", text=message)
        return (await reminding.remind(wanted)).collections

    assert await named("Which pressure does the boiler have, in bar?") == ("house manuals",)
    assert await named("Please look into the taxes.") == ("taxes",)
    assert await named("Do the house manuals say anything of plums?") == ("house manuals",)
    assert await named("Good morning to you!") == ()
