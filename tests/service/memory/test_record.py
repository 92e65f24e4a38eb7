"""Units of a session, as somebody else cut them, are written once and found again."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsMemoryClient, NatsSessionMemoryClient
from choir_common.errors import Conflict, InvalidRequest
from choir_common.postgres.pool import Database
from choir_common.wire.memory_search import MemoryQuery
from choir_common.wire.memory_sessions import RecordUnits, SessionUnit, UnitsRecorded
from choir_memory.sessions.recorder import UnitRecorder
from tests.service.memory.conftest import Room
from tests.service.memory.servers import MakeMemory

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_unit(position: int, text: str, **more: object) -> SessionUnit:
    fields: dict[str, object] = {
        "id": f"D1:{position}",
        "text": text,
        "at": NOON + timedelta(minutes=position),
        "position": position,
        "speaker": "Ada",
    }
    return SessionUnit.model_validate(fields | more)


@dataclass
class Desk:
    recorder: UnitRecorder
    database: Database

    async def record(self, *units: SessionUnit, session: str = "s1") -> UnitsRecorded:
        return await self.recorder.record(
            RecordUnits(agent_id="main", session_id=session, units=units)
        )

    async def rows(self) -> list[dict[str, object]]:
        found = await self.database.fetch(
            "SELECT id, text, version, speaker, trust, tier, chunk_index "
            "FROM choir_main.memory_documents ORDER BY session_id, chunk_index"
        )
        return [dict(row) for row in found]

    async def queued(self) -> int:
        return int(
            await self.database.fetchval("SELECT count(*) FROM choir_memory.embedding_queue")
        )


@pytest.fixture
async def desk(room: Room) -> AsyncIterator[Desk]:
    yield Desk(UnitRecorder(room.database, room.spaces, room.queue), room.database)


async def test_a_recorded_unit_is_found_by_its_words_and_by_its_speaker(
    desk: Desk, room: Room
) -> None:
    await desk.record(make_unit(0, "The otter sleeps in the boathouse."))
    for query in ("otter", "Ada"):
        found = await room.ask(query, store="session", mode="text")
        assert [hit.metadata["unit"] for hit in found.hits] == ["D1:0"], query


async def test_units_recorded_twice_are_the_same_rows_and_want_one_vector_each(desk: Desk) -> None:
    units = [make_unit(n, f"sentence {n}") for n in range(3)]
    first = await desk.record(*units)
    before = await desk.rows()
    again = await desk.record(*units)
    assert (first.written, again.written) == (3, 0)
    assert first.document_ids == again.document_ids
    assert await desk.rows() == before
    assert await desk.queued() == 3


async def test_a_unit_that_says_something_else_loses_its_vector_and_waits_for_a_new_one(
    desk: Desk, room: Room
) -> None:
    [made] = (await desk.record(make_unit(0, "It rains."))).document_ids
    model = await desk.database.fetchval("SELECT id FROM choir_memory.embedding_models")
    zeros = "[" + ",".join(["0.5"] * room.guard.dimensions) + "]"
    await desk.database.execute(
        "INSERT INTO choir_main.memory_embeddings VALUES ($1, 0, $2::text::halfvec, $3)",
        UUID(made),
        zeros,
        model,
    )
    again = await desk.record(make_unit(0, "It snows."))
    assert (again.document_ids, again.written) == ((made,), 1)
    [row] = await desk.rows()
    assert (row["text"], row["version"]) == ("It snows.", 2)
    assert await desk.database.fetchval("SELECT count(*) FROM choir_main.memory_embeddings") == 0


async def test_two_units_cannot_have_one_position(desk: Desk) -> None:
    await desk.record(make_unit(0, "first"))
    with pytest.raises(Conflict, match="Position 0"):
        await desk.record(make_unit(0, "second", id="other"))
    assert len(await desk.rows()) == 1


async def test_what_cannot_be_stored_is_refused_whole(desk: Desk) -> None:
    for bad in (make_unit(1, "  "), make_unit(1, "a\x00b"), make_unit(1, "same", id="D1:0")):
        with pytest.raises(InvalidRequest):
            await desk.record(make_unit(0, "good"), bad)
    assert await desk.database.fetchval("SELECT to_regclass('choir_main.memory_documents')") is None


async def test_trust_follows_the_origin_unless_it_is_said(desk: Desk) -> None:
    await desk.record(
        make_unit(0, "from a page", origin="web"),
        make_unit(1, "from a person"),
        make_unit(2, "from a doubtful person", trust=20),
    )
    assert [row["trust"] for row in await desk.rows()] == [10, 70, 20]


async def test_units_come_in_over_the_bus(make_memory: MakeMemory, bus: Bus) -> None:
    memory = make_memory()
    await memory.start()
    units = tuple(make_unit(n, f"The lamp number {n} is lit.") for n in range(40))
    answer = await NatsSessionMemoryClient(bus).record(
        RecordUnits(agent_id="main", session_id="s1", units=units)
    )
    assert answer.written == 40
    found = await NatsMemoryClient(bus).query(
        MemoryQuery(agent_id="main", store="session", mode="text", query="lamp 17")
    )
    assert found.hits[0].document_id == answer.document_ids[17]
