"""The memory service as deployed, without the rest of Choir: Postgres, NATS and one service process."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsMemoryClient, NatsSessionMemoryClient
from choir_common.errors import DeadlineExceeded
from choir_common.wire.config import EmbeddingConfig, MemoryConfig, ModelConfig
from choir_common.wire.memory_recall import ReadReminders, Reminders
from choir_common.wire.memory_search import ALL_ARMS, Arm, EnsureSpace, MemoryHits, MemoryQuery
from choir_common.wire.memory_sessions import (
    MAX_UNITS,
    ArchivePage,
    Origin,
    RecordUnits,
    SessionEnd,
    SessionUnit,
)
from choir_memory.sessions.rendering import split_text
from tests.eval.corpus import Space, Unit
from tests.eval.measures import Measures, measure
from tests.eval.reminders import ReminderMeasures, chat_for, contains_answer, lengthen
from tests.service.memory.servers import (
    MemoryProcess,
    make_directory,
    running_nats,
)
from tests.support.bus import BUS_KEY
from tests.support.postgres import running_postgres

PAGE = min(64, MAX_UNITS)
MAX_ATTEMPTS = 20
"""Attempts per question: on a busy machine the service may skip an arm, and such a result is not used."""
MODEL_KEY = "CHOIR_EVAL_MODEL_KEY"
EMBEDDING_KEY = "CHOIR_EVAL_EMBEDDING_KEY"
SLOW_DEADLINES = {"CHOIR_QUERY_EMBEDDING_DEADLINE_S": "8"}
DEPTH = 50
"""Number of hits requested; the ranking of sessions needs more than ten."""
MID_TERM = MemoryConfig().mid_term_sessions
ASSISTANT = "assistant"
"""The speaker name of the assistant, in data sets of conversations with a user."""


@dataclass
class WrittenSpace:
    """A space that was written to the service."""

    agent_id: str
    space: Space
    unit_of: dict[str, str] = field(default_factory=dict)
    """Document id → unit id."""

    @property
    def session_of(self) -> dict[str, str]:
        return {unit.id: unit.session for unit in self.space.units}

    def units_found(self, hits: MemoryHits) -> list[str]:
        """Return the unit ids of the hits, best first; a session summary gets an id of its own."""
        return [
            self.unit_of.get(hit.document_id, f"summary {hit.document_id}") for hit in hits.hits
        ]


@dataclass
class Harness:
    """Client that writes spaces to a running memory service and searches them."""

    bus: Bus
    expand: bool = False
    """Whether the service's language model expands each query."""

    async def write(self, number: int, space: Space) -> WrittenSpace:
        """Record every unit of a space as sessions of a new agent."""
        written = WrittenSpace(f"space{number}", space)
        await NatsMemoryClient(self.bus).ensure(EnsureSpace(agent_id=written.agent_id))
        sessions: dict[str, list[Unit]] = {}
        for unit in space.units:
            sessions.setdefault(unit.session, []).append(unit)
        for session, units in sessions.items():
            recorded = list(_session_units(units))
            for at in range(0, len(recorded), PAGE):
                page = recorded[at : at + PAGE]
                answer = await NatsSessionMemoryClient(self.bus).record(
                    RecordUnits(
                        agent_id=written.agent_id,
                        session_id=session,
                        units=tuple(unit for unit, _ in page),
                    )
                )
                names = (name for _, name in page)
                written.unit_of.update(zip(answer.document_ids, names, strict=True))
        return written

    async def end_sessions(self, written: WrittenSpace) -> int:
        """End every session, oldest first, as control does; return how many were promoted."""
        spans: dict[str, list[datetime]] = {}
        for unit in written.space.units:
            spans.setdefault(unit.session, []).append(unit.at)
        promoted = 0
        for session, moments in sorted(spans.items(), key=lambda one: min(one[1])):
            answer = await NatsSessionMemoryClient(self.bus).archive(
                ArchivePage(
                    agent_id=written.agent_id,
                    session_id=session,
                    started_at=min(moments),
                    events=(),
                    end=SessionEnd(at=max(moments), mid_term_sessions=MID_TERM),
                )
            )
            promoted += len(answer.promoted)
        return promoted

    async def wait_for_vectors(self, say: Callable[[str], None], deadline_s: float) -> None:
        """Wait until every document has its vector. Raises TimeoutError after `deadline_s`."""
        memory = NatsMemoryClient(self.bus)
        async with asyncio.timeout(deadline_s):
            while (status := await memory.status()).queued + status.failed:
                say(f"{status.queued + status.failed} documents wait for a vector")
                await asyncio.sleep(0.5)

    async def search(self, written: WrittenSpace, text: str, arms: Sequence[Arm]) -> MemoryHits:
        """Search for one question with the given arms."""
        return await NatsMemoryClient(self.bus).query(
            MemoryQuery(
                agent_id=written.agent_id,
                store="session",
                query=text,
                limit=DEPTH,
                arms=tuple(arms),
                expand=self.expand,
                deadline_ms=9_000,
            )
        )

    async def _ask_all_arms(
        self, written: WrittenSpace, text: str, arms: Sequence[Arm]
    ) -> MemoryHits:
        for _ in range(MAX_ATTEMPTS):
            answer = await self.search(written, text, arms)
            if not answer.degraded and not set(answer.cut) - {"receipt"}:
                return answer
            await asyncio.sleep(1)
        raise RuntimeError(f"the service left out {answer.cut}: {answer.degraded}")

    async def measure(
        self, written: WrittenSpace, arms: Sequence[Arm] = ALL_ARMS
    ) -> list[Measures]:
        """Run every question of a space. Raises RuntimeError if the service keeps skipping an arm."""
        measured = []
        session_of = written.session_of
        for question in written.space.questions:
            answer = await self._ask_all_arms(written, question.text, arms)
            measured.append(measure(question, written.units_found(answer), session_of))
        return measured

    async def remind(self, written: WrittenSpace, text: str) -> Reminders:
        """Read the reminders for one message; on a busy machine an answer may come too late for an agent."""
        request = ReadReminders(
            agent_id=written.agent_id, session_id="now", text=text, deadline_ms=9_000
        )
        for _ in range(MAX_ATTEMPTS):
            with contextlib.suppress(DeadlineExceeded):
                return await NatsMemoryClient(self.bus).remind(request)
            await asyncio.sleep(1)
        raise RuntimeError(f"memory did not answer in {MAX_ATTEMPTS} attempts")

    async def measure_reminders(
        self, written: WrittenSpace, chat: Mapping[str, Sequence[str]]
    ) -> ReminderMeasures:
        """Read the reminders for every question, alone and in a long message, and for small talk."""
        language, small_talk = chat_for(written.space, chat)
        alone: list[bool] = []
        long: list[bool] = []
        for question in written.space.questions:
            for messages, text in (
                (alone, question.text),
                (long, lengthen(question.text, small_talk, language)),
            ):
                reminders = await self.remind(written, text)
                messages.append(contains_answer(reminders, written.unit_of, question.evidence))
        unneeded = [bool((await self.remind(written, text)).reminders) for text in small_talk]
        return ReminderMeasures(*(sum(one) / max(len(one), 1) for one in (alone, long, unneeded)))


@contextlib.asynccontextmanager
async def running_harness(
    model: ModelConfig | None = None, embedding: EmbeddingConfig | None = None
) -> AsyncIterator[Harness]:
    """Start the servers and the service; stop them after the block.

    The service embeds with the offline model, or with the provider's model of `embedding`. It learns facts
    with the language `model` and expands queries with it, if there is one. Their keys are the environment's
    `CHOIR_EVAL_EMBEDDING_KEY` and `CHOIR_EVAL_MODEL_KEY`.
    """
    async with running_postgres() as postgres, running_nats() as nats:
        async with Bus(nats.url, BUS_KEY, "eval") as bus:
            with make_directory() as root:
                process = MemoryProcess(postgres.dsn, nats.url, bus, root, SLOW_DEADLINES)
                if embedding is not None:
                    process.secrets["embedding"] = embedding.model_dump(exclude_none=True)
                    if key := os.environ.get(EMBEDDING_KEY):
                        process.secrets["embedding_key"] = key
                if model is not None:
                    process.secrets["model"] = json.loads(model.model_dump_json())
                    process.secrets["model_key"] = os.environ.get(MODEL_KEY, "none")
                try:
                    await process.start()
                    yield Harness(bus, expand=model is not None)
                finally:
                    await process.kill()


def _session_units(units: Sequence[Unit]) -> Iterator[tuple[SessionUnit, str]]:
    """Yield the units of a session in the form that is recorded, each with its id in the data set.

    Long messages are split as in an archived session, so each part is a unit with its own position.
    """
    position = 0
    for unit in units:
        origin: Origin = "agent" if unit.speaker == ASSISTANT else "user"
        for number, text in enumerate(split_text(unit.text) or ["(empty)"]):
            recorded = SessionUnit(
                id=f"{unit.id}/{number}" if number else unit.id,
                text=text,
                at=unit.at,
                position=position,
                speaker=unit.speaker,
                origin=origin,
            )
            yield recorded, unit.id
            position += 1
