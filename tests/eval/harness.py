"""The memory service as it is deployed, without the rest of Choir: Postgres, NATS, one process, the bus."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from choir_common.bus.client import Bus
from choir_common.clients.memory import BusMemory
from choir_common.clients.memory_sessions import BusSessionMemory
from choir_common.wire.memories import ALL_ARMS, Arm, EnsureSpace, MemoryHits, MemoryQuery
from choir_common.wire.memory_sessions import MAX_UNITS, RecordUnits, SessionUnit
from tests.eval.corpus import Space, Unit
from tests.eval.measures import Measures, measure
from tests.service.memory.servers import (
    NATS_TOKEN,
    MemoryProcess,
    make_directory,
    running_nats,
)
from tests.support.servers import running_postgres

PAGE = min(64, MAX_UNITS)
TRIES = 20
"""A busy machine may leave out an arm now and then; what is measured has all of them."""
PATIENT = {"CHOIR_QUERY_EMBEDDING_DEADLINE_S": "8"}
DEPTH = 50
"""Hits asked for: sessions are ranked by them, too."""


@dataclass
class Written:
    """A space as it stands in the service."""

    agent_id: str
    space: Space
    unit_of: dict[str, str] = field(default_factory=dict)
    """Document id → unit id."""

    @property
    def session_of(self) -> dict[str, str]:
        return {unit.id: unit.session for unit in self.space.units}


@dataclass
class Harness:
    """Writes spaces into a running service and asks it."""

    bus: Bus

    async def write(self, number: int, space: Space) -> Written:
        """Record every unit of a space as sessions of an agent of its own."""
        written = Written(f"space{number}", space)
        await BusMemory(self.bus).ensure(EnsureSpace(agent_id=written.agent_id))
        sessions: dict[str, list[Unit]] = {}
        for unit in space.units:
            sessions.setdefault(unit.session, []).append(unit)
        for session, units in sessions.items():
            for at in range(0, len(units), PAGE):
                page = units[at : at + PAGE]
                answer = await BusSessionMemory(self.bus).record(
                    RecordUnits(
                        agent_id=written.agent_id,
                        session_id=session,
                        units=tuple(_told(unit) for unit in page),
                    )
                )
                names = (unit.id for unit in page)
                written.unit_of.update(zip(answer.document_ids, names, strict=True))
        return written

    async def wait_for_vectors(self, say: Callable[[str], None], deadline_s: float) -> None:
        """Wait until nothing is queued; raises TimeoutError."""
        memory = BusMemory(self.bus)
        async with asyncio.timeout(deadline_s):
            while (status := await memory.status()).queued + status.failed:
                say(f"{status.queued + status.failed} documents wait for a vector")
                await asyncio.sleep(0.5)

    async def ask(self, written: Written, text: str, arms: Sequence[Arm]) -> MemoryHits:
        """Ask one question, with some of the arms."""
        return await BusMemory(self.bus).query(
            MemoryQuery(
                agent_id=written.agent_id,
                store="session",
                query=text,
                limit=DEPTH,
                arms=tuple(arms),
                deadline_ms=9_000,
            )
        )

    async def _ask_all_arms(self, written: Written, text: str, arms: Sequence[Arm]) -> MemoryHits:
        for _ in range(TRIES):
            answer = await self.ask(written, text, arms)
            if not answer.degraded and not set(answer.cut) - {"receipt"}:
                return answer
            await asyncio.sleep(1)
        raise RuntimeError(f"the service left out {answer.cut}: {answer.degraded}")

    async def measure(self, written: Written, arms: Sequence[Arm] = ALL_ARMS) -> list[Measures]:
        """Ask every question of a space; raises RuntimeError when an arm stayed away."""
        measured = []
        session_of = written.session_of
        for question in written.space.questions:
            answer = await self._ask_all_arms(written, question.text, arms)
            found = [written.unit_of[hit.document_id] for hit in answer.hits]
            measured.append(measure(question, found, session_of))
        return measured


@contextlib.asynccontextmanager
async def running_harness() -> AsyncIterator[Harness]:
    """Start the servers and the service with its offline model; end them afterwards."""
    async with running_postgres() as postgres, running_nats() as nats:
        async with Bus(nats.url, NATS_TOKEN, "eval") as bus:
            with make_directory() as root:
                process = MemoryProcess(postgres.dsn, nats.url, bus, root, PATIENT)
                try:
                    await process.start()
                    yield Harness(bus)
                finally:
                    await process.kill()


def _told(unit: Unit) -> SessionUnit:
    return SessionUnit(
        id=unit.id,
        text=unit.text or " ",
        at=unit.at,
        position=unit.position,
        speaker=unit.speaker,
        origin="user",
    )
