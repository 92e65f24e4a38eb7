"""Facts come soon after the words: between the maintenance passes, once, and also after a failure."""

from dataclasses import dataclass, field
from typing import Any

from choir_common.clock import SystemClock
from choir_common.errors import RateLimited
from choir_common.wire.config import MemoryPrompts, MemoryServiceConfig
from choir_memory.facts.extraction import BATCH_TURNS, ExtractionTask
from choir_memory.maintenance.learning import LearningScheduler
from choir_memory.maintenance.tasks import MaintenanceTasks
from choir_memory.schema.extraction_queue_store import ExtractionQueueStore
from choir_memory.schema.lease_store import LeaseStore
from tests.service.memory.conftest import Room
from tests.service.memory.derived import ScriptedModel, answer, propose
from tests.service.memory.session_archive import make_session_archive
from tests.service.memory.test_facts import UnavailableEmbedders, known
from tests.support.sessions import LogBuilder, conversation_log

DEFAULTS = MemoryServiceConfig()
GREEN_TEA = [("The user drinks green tea.", "active", 1)]


@dataclass
class FixedModel:
    """The model of a configuration that does not change; `settings` of the same."""

    model: ScriptedModel | None = field(default_factory=ScriptedModel)
    config: MemoryServiceConfig = field(default_factory=MemoryServiceConfig)

    async def configure(self, settings: object) -> None:
        """Nothing to change."""

    async def read(self) -> MemoryServiceConfig:
        return self.config


def make_tasks(
    room: Room, model: ScriptedModel | None, leases: LeaseStore, config: MemoryServiceConfig
) -> MaintenanceTasks:
    embedders: Any = UnavailableEmbedders()
    fixed: Any = FixedModel(model, config)
    return MaintenanceTasks(
        database=room.database,
        spaces=room.spaces,
        leases=leases,
        clock=SystemClock(),
        embedders=embedders,
        queue=room.queue,
        language_model=fixed,
        settings=fixed,
    )


def make_learning(
    room: Room,
    model: ScriptedModel | None,
    replica: str = "r1",
    config: MemoryServiceConfig = DEFAULTS,
) -> LearningScheduler:
    leases = LeaseStore(room.database, replica)
    tasks = make_tasks(room, model, leases, config)
    queue = ExtractionQueueStore(room.database)
    return LearningScheduler(extraction_queue=queue, tasks=tasks, leases=leases, poll_s=60)


async def hear(room: Room, script: LogBuilder, *, ended: bool = False) -> None:
    """Archive the events of a session."""
    archive = make_session_archive(room.database, room.spaces, room.queue)
    await archive.take(script.page(keep=10 if ended else None))


async def let_it_settle(room: Room) -> None:
    """Let everything in memory and in the queue be five minutes older."""
    await room.database.execute(
        "UPDATE choir_main.memory_documents SET created_at = created_at - interval '5 minutes'"
    )
    for name in ("due", "stored"):
        await room.database.execute(
            "UPDATE choir_memory.cursors SET position = position || jsonb_build_object($1::text, "
            "(position ->> $1)::timestamptz - interval '5 minutes') WHERE position ? $1",
            name,
        )


async def queued(room: Room) -> int:
    return int(
        await room.database.fetchval(
            "SELECT count(*) FROM choir_memory.cursors WHERE name = 'extraction due'"
        )
    )


def tea_log() -> LogBuilder:
    script = LogBuilder("s1")
    script.start()
    script.user("I only drink green tea.", "t1")
    script.reply("Noted.", "t1")
    return script


async def test_facts_of_a_running_session_are_learned_once_its_turns_have_settled(
    room: Room,
) -> None:
    await hear(room, tea_log())
    model = ScriptedModel([answer(propose())])
    learning = make_learning(room, model)
    assert await learning.run_due() == 0 and model.asked == []
    await let_it_settle(room)
    assert await learning.run_due() == 1
    assert await known(room) == GREEN_TEA
    # what was read is not read again, and costs nothing more
    assert await queued(room) == 0
    assert await learning.run_due() == 0 and len(model.asked) == 1


async def test_a_repeated_page_asks_the_model_nothing(room: Room) -> None:
    model = ScriptedModel([answer(propose())])
    learning = make_learning(room, model)
    for _ in range(2):
        await hear(room, tea_log())
        await let_it_settle(room)
        await learning.run_due()
    assert len(model.asked) == 1 and await known(room) == GREEN_TEA


async def test_a_batch_costs_one_call_however_many_messages_and_pages_it_came_in(
    room: Room,
) -> None:
    script = LogBuilder("s1")
    script.start()
    for number in range(BATCH_TURNS // 2):
        script.user(f"I only drink green tea, {number} cups a day.", f"t{number}")
        script.reply("Noted.", f"t{number}")
        await hear(room, script)
    model = ScriptedModel([answer(propose())])
    learning = make_learning(room, model)
    # the polls until the turns have settled cost nothing
    for _ in range(3):
        assert await learning.run_due() == 0
    await let_it_settle(room)
    assert await learning.run_due() == 1
    [(_, material)] = model.asked
    assert material.count("green tea") == BATCH_TURNS // 2
    assert await queued(room) == 0 and await known(room) == GREEN_TEA


async def test_both_loops_ask_with_the_agents_own_prompt(room: Room) -> None:
    own = MemoryServiceConfig(prompts={"main": MemoryPrompts(extraction="Only what grows.")})
    await hear(room, tea_log())
    await let_it_settle(room)
    model = ScriptedModel([answer(propose())])
    await make_learning(room, model, config=own).run_due()
    script = LogBuilder("s2")
    script.start()
    script.user("I live in Porto.", "t1")
    await hear(room, script)
    await let_it_settle(room)
    model.answers = [answer()]
    for task in await make_tasks(room, model, LeaseStore(room.database, "r2"), own).create():
        if isinstance(task, ExtractionTask):
            await task.run_agent("main")
    instructions = [asked for asked, _ in model.asked]
    assert len(instructions) == 2
    for prompt in instructions:
        assert "Only what grows." in prompt and "how they want to be served" not in prompt
        assert "quote: the words of the source" in prompt, "the frame is fixed"


async def test_turns_that_came_meanwhile_stay_queued(room: Room) -> None:
    script = tea_log()
    await hear(room, script)
    await let_it_settle(room)
    script.user("And I live in Porto.", "t2")
    await hear(room, script)
    model = ScriptedModel([answer(propose()), answer()])
    learning = make_learning(room, model)
    assert await learning.run_due() == 1
    assert await queued(room) == 1 and len(model.asked) == 1
    await let_it_settle(room)
    assert await learning.run_due() == 1
    assert await queued(room) == 0
    assert "Porto" in model.asked[1][1] and "green tea" not in model.asked[1][1]


async def test_a_model_at_its_limit_is_left_alone_longer_each_time(room: Room) -> None:
    await hear(room, tea_log())
    model = ScriptedModel([RateLimited("slow down"), RateLimited("slow down"), answer(propose())])
    learning = make_learning(room, model)
    due = (
        "SELECT extract(epoch FROM (position ->> 'due')::timestamptz - clock_timestamp()) "
        "FROM choir_memory.cursors WHERE name = 'extraction due'"
    )
    await let_it_settle(room)
    for wait_s in (60, 120):
        assert await learning.run_due() == 0
        assert wait_s - 30 < float(await room.database.fetchval(due)) <= wait_s
        asked = len(model.asked)
        assert await learning.run_due() == 0 and len(model.asked) == asked
        await let_it_settle(room)
    assert await learning.run_due() == 1
    assert await known(room) == GREEN_TEA


async def test_two_replicas_do_not_read_the_same_turns(room: Room) -> None:
    await hear(room, tea_log())
    await let_it_settle(room)
    model = ScriptedModel([answer(propose())])
    async with LeaseStore(room.database, "r2").hold("main", "facts") as ours:
        assert ours
        await make_learning(room, model).run_due()
        assert model.asked == [] and await queued(room) == 1
    await make_learning(room, model, "r3").run_due()
    assert await known(room) == GREEN_TEA and await queued(room) == 0


async def test_without_a_model_the_turns_wait_for_one(room: Room) -> None:
    await hear(room, tea_log())
    await let_it_settle(room)
    assert await make_learning(room, None).run_due() == 0
    await make_learning(room, ScriptedModel([answer(propose())])).run_due()
    assert await known(room) == GREEN_TEA


async def test_what_was_held_is_reviewed_when_its_session_has_ended(room: Room) -> None:
    await hear(
        room,
        conversation_log("s1", "I only drink green tea.", "Green it is.", summary="Tea is green."),
        ended=True,
    )
    await let_it_settle(room)
    support = '{"supported": [{"statement": 1, "source": 2, "quote": "Green it is"}]}'
    model = ScriptedModel([answer(propose(explicit=False)), support])
    assert await make_learning(room, model).run_due() == 1
    facts = [fact for fact in await known(room) if "tea." in fact[0]]
    assert ("The user drinks green tea.", "active", 1) in facts
