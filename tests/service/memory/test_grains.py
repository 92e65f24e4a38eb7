"""Time summaries: which periods are summed up, when, from what, and by whom."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from choir_common.clients.memory import NatsSessionMemoryClient
from choir_common.errors import Unavailable
from choir_common.postgres.pool import Database
from choir_common.wire.memory_sessions import RecordUnits, SessionUnit
from choir_memory.llm.model import LanguageModel
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.summaries.consolidation import ConsolidationTask
from choir_memory.summaries.summarizer import Summarizer
from tests.service.memory.conftest import Room
from tests.service.memory.derived import ScriptedModel, SetClock, live_turns
from tests.service.memory.servers import MakeMemory, until
from tests.support.postgres import PASSWORD

ROOF = ("2024-01-15T09:00", "Ana", "The carpenter mends the roof of the barn on Tuesday.")
CAT = ("2024-01-16T10:00", "Ana", "Mimi the cat was at the vet, her left ear is sore.")
LATER = ("2024-02-20T10:00", "Ana", "We moved to Lisbon, near the old harbour.")


def make(
    room: Room, at: str, model: LanguageModel | None = None, holder: str = "r1"
) -> ConsolidationTask:
    clock = SetClock(datetime.fromisoformat(at).replace(tzinfo=UTC))
    leases = LeaseStore(room.database, holder)
    return ConsolidationTask(
        database=room.database,
        spaces=room.spaces,
        leases=leases,
        summarizer=Summarizer(model),
        clock=clock,
        queue=room.queue,
        retention={},
    )


async def summaries(room: Room) -> dict[str, str]:
    rows = await room.database.fetch(
        "SELECT period, text FROM choir_main.memory_documents WHERE grain IS NOT NULL"
        " ORDER BY array_position(ARRAY['day', 'week', 'month', 'quarter', 'year'], grain), period"
    )
    return {row["period"]: row["text"] for row in rows}


async def rolled_up(room: Room, period: str) -> set[UUID]:
    rows = await room.database.fetch(
        "SELECT l.to_id FROM choir_main.links l JOIN choir_main.memory_documents d"
        " ON d.id = l.from_id WHERE l.kind = 'rolls_up' AND d.period = $1",
        period,
    )
    return {row["to_id"] for row in rows}


async def test_after_a_downtime_every_period_that_is_over_is_summed_up(room: Room) -> None:
    await room.spaces.ensure("main")
    turns = await live_turns(room.database, [ROOF, CAT, LATER])
    written = await make(room, "2025-06-01").run_agent("main")
    made = await summaries(room)
    assert list(made) == [
        *("2024-01-15", "2024-01-16", "2024-02-20"),
        *("2024-W03", "2024-W08"),
        *("2024-01", "2024-02"),
        *("2024-Q1", "2024"),
    ]
    assert written == len(made)
    assert made["2024-01-15"] == f"Ana: {ROOF[2]}"
    # a year later it still says on which day it was
    assert "2024-01-16" in made["2024"]
    assert "Lisbon" in made["2024"]
    assert await rolled_up(room, "2024-01-15") == {turns[0]}
    queued = await room.database.fetchval("SELECT count(*) FROM choir_memory.embedding_queue")
    assert queued == written


async def test_a_period_that_is_not_over_waits(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF, CAT])
    await make(room, "2024-01-16T23:00").run_agent("main")
    assert list(await summaries(room)) == ["2024-01-15"]
    await make(room, "2024-01-22").run_agent("main")
    assert list(await summaries(room)) == ["2024-01-15", "2024-01-16", "2024-W03"]


async def test_a_second_pass_changes_nothing(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF, CAT])
    await make(room, "2025-06-01").run_agent("main")
    rows = "SELECT * FROM choir_main.memory_documents ORDER BY id"
    before = await room.database.fetch(rows)
    assert await make(room, "2025-06-02").run_agent("main") == 0
    assert await room.database.fetch(rows) == before


async def test_an_agent_of_whom_nothing_is_due_costs_no_write(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF, CAT, LATER])
    await make(room, "2025-06-01").run_agent("main")
    await room.database.execute("DELETE FROM choir_memory.cursors")
    assert await make(room, "2025-06-01").run_agent("main") == 0
    assert await room.database.fetchval("SELECT count(*) FROM choir_memory.cursors") == 0


async def test_what_is_archived_late_is_summed_up_too(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF])
    await make(room, "2025-06-01").run_agent("main")
    late = ("2024-01-15T18:00", "Ana", "The insurance pays for the roof of the barn.")
    await live_turns(room.database, [late], session="s2", tier="long_term_detail")
    assert await make(room, "2025-06-01").run_agent("main") == 5
    made = await summaries(room)
    assert "insurance" in made["2024-01-15"]
    assert "insurance" in made["2024"]


async def test_a_model_writes_the_summary_and_is_told_that_its_material_is_quoted(
    room: Room,
) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF])
    model = ScriptedModel([f"summary {n}" for n in range(5)])
    await make(room, "2025-06-01", model).run_agent("main")
    assert list((await summaries(room)).values()) == [f"summary {n}" for n in range(5)]
    instructions, material = model.asked[0]
    assert "one day (2024-01-15)" in instructions
    assert material == f"> Ana: {ROOF[2]}"


async def test_a_model_that_fails_leaves_selections_which_it_replaces_when_it_is_back(
    room: Room,
) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF])
    model = ScriptedModel([Unavailable("away")])
    await make(room, "2025-06-01", model).run_agent("main")
    assert len(model.asked) == 1, "one failure is enough for a pass"
    assert (await summaries(room))["2024-01-15"] == f"Ana: {ROOF[2]}"

    model.answers = [Unavailable("still away")]
    assert await make(room, "2025-06-01", model).run_agent("main") == 0

    model.answers = [f"summary {n}" for n in range(5)]
    assert await make(room, "2025-06-01", model).run_agent("main") == 5
    assert list((await summaries(room)).values()) == [f"summary {n}" for n in range(5)]


UNDO = "UPDATE choir_main.memory_documents SET metadata = metadata || '{\"unlearned\": true}'"


@pytest.mark.parametrize("statement", ["DELETE FROM choir_main.memory_documents", UNDO])
async def test_what_is_erased_or_undone_while_the_model_thinks_does_not_come_back(
    room: Room, statement: str
) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF])

    class Eraser(ScriptedModel):
        async def answer(self, instructions: str, material: str) -> str:
            await room.database.execute(statement)
            return await super().answer(instructions, material)

    await make(room, "2025-06-01", Eraser(["The roof."])).run_agent("main")
    assert await summaries(room) == {}


async def test_a_summary_is_trusted_no_more_than_what_it_is_made_of(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF])
    await live_turns(room.database, [CAT], session="s2", origin="web", trust=10)
    await make(room, "2025-06-01").run_agent("main")
    rows = await room.database.fetch(
        "SELECT period, origin, trust FROM choir_main.memory_documents WHERE grain IS NOT NULL"
    )
    trusted = {row["period"]: row["trust"] for row in rows}
    assert {row["origin"] for row in rows} == {"derived"}
    assert (trusted["2024-01-15"], trusted["2024-01-16"], trusted["2024"]) == (70, 10, 10)


async def test_two_replicas_do_not_work_on_one_grain_at_a_time(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF])
    other = LeaseStore(room.database, "r2")
    async with other.hold("main", "grain:day") as theirs:
        assert theirs
        assert await make(room, "2025-06-01").run_agent("main") == 0
    assert await make(room, "2025-06-01").run_agent("main") == 5


async def test_the_lease_of_a_replica_that_died_can_be_taken_when_it_ran_out(room: Room) -> None:
    await room.spaces.ensure("main")
    await LeaseStore(room.database, "dead").renew("main", "grain:day")
    mine = LeaseStore(room.database, "r1")
    assert not await mine.renew("main", "grain:day")
    await room.database.execute(
        "UPDATE choir_memory.cursors SET held_until = now() - '1 s'::interval"
    )
    assert await mine.renew("main", "grain:day")


async def test_the_service_sums_up_by_itself(make_memory: MakeMemory) -> None:
    memory = make_memory(CHOIR_ROUND_S="0.2")
    await memory.start()
    unit = SessionUnit(
        id="u1", text=ROOF[2], at=datetime(2024, 1, 15, 9, tzinfo=UTC), position=0, speaker="Ana"
    )
    told = RecordUnits(agent_id="main", session_id="s1", units=(unit,))
    await NatsSessionMemoryClient(memory.bus).record(told)
    async with Database(memory.dsn, PASSWORD, size=1, application="test") as database:
        year = "SELECT text FROM choir_main.memory_documents WHERE period = '2024'"

        async def summed_up() -> bool:
            return await database.fetchval(year) is not None

        await until(summed_up, 60)
        assert ROOF[2] in await database.fetchval(year)
    assert await memory.stop() == 0
