"""A memory service with its own Postgres and NATS that performs the steps of a year while parts of it crash.

Every action can be repeated. After a crash the driver starts the service again and repeats the action, as
control and its users do.
"""

import asyncio
import contextlib
import json
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.errors import Conflict, DeadlineExceeded, Unavailable
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.config import MemoryServiceConfig
from choir_common.wire.memory_search import EnsureSpace
from choir_common.wire.messages import Empty
from choir_local.postgres import EmbeddedPostgres
from tests.faults.year.actions import YearActions
from tests.faults.year.service import CRASH, Crash
from tests.faults.year.steps import AGENT, Action, ChangeModel, Configure, Maintain, Step
from tests.faults.year.texts import answer_model
from tests.service.memory.chat_provider import ChatProvider
from tests.service.memory.provider import ScriptedProvider
from tests.service.memory.servers import MemoryProcess, make_directory, running_nats
from tests.support.bus import BUS_KEY
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.usage_fakes import RecordingLedger, control_endpoints

ACTION_TIMEOUT_S = 120.0
KILLED = -9
MAX_LAST_PASSES = 50
SPRING_MODEL = ("spring-model", 64)
# Timers far away: what they start would happen in one run and not in the other.
SETTINGS = {
    "CHOIR_EMBEDDING_TICK_S": "0.02",
    "CHOIR_EMBEDDING_POLL_S": "0.1",
    "CHOIR_EMBEDDING_RETRY_S": "0.1",
    "CHOIR_EMBEDDING_SWEEP_S": "0.5",
    "CHOIR_EMBEDDING_GRACE_S": "0.1",
    "CHOIR_QUERY_EMBEDDING_DEADLINE_S": "9",
    "CHOIR_FOLDER_SCAN_S": "40000",
}
# five minutes pass: the leases of a process that died expire
_EXPIRE_LEASES = """
UPDATE choir_memory.cursors SET held_until = now() - interval '1 second' WHERE holder IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Kill:
    """A crash of the service at its `line`-th line from now on, or of Postgres after `delay_s`."""

    postgres: bool
    line: int
    delay_s: float


@dataclass(kw_only=True)
class Installation:
    """The servers, the service, and what control would know."""

    memory: MemoryProcess
    postgres: EmbeddedPostgres
    database: Database
    actions: YearActions
    clock: Path
    settings: MemoryServiceConfig
    deaths: int = 0
    """Crashes of the service and of Postgres so far."""
    _due: deque[Kill] = field(default_factory=deque)
    _armed: bool = False

    async def begin(self, at: datetime) -> None:
        """Start the service with an empty memory."""
        self.set_clock(at)
        await migrate(self.database, "choir_control", read_migrations("choir_control.migrations"))
        await self.memory.start()
        await self.memory.client.ensure(EnsureSpace(agent_id=AGENT))

    def set_clock(self, at: datetime) -> None:
        """Set the service's time."""
        new = self.clock.with_suffix(".new")
        new.write_text(at.isoformat())
        new.replace(self.clock)

    async def read_settings(self, _: Empty) -> MemoryServiceConfig:
        """Return memory's part of the configuration, as control does."""
        return self.settings

    async def live(self, steps: Sequence[Step], kills: Mapping[int, Kill]) -> None:
        """Perform all steps; `kills` names those during which something dies.

        A crash of the service whose line is not reached in its step happens in a later one.
        """
        for number, step in enumerate(steps):
            self.set_clock(step.at)
            if number in kills:
                self._due.append(kills[number])
            match step.action:
                case Configure():
                    self.settings = step.action.apply(self.settings)
                case ChangeModel():
                    self.memory.env |= model_settings(step.action.name, step.action.dimensions)
                    await self.restart()
                case _:
                    await self.perform(step.action)
        for _ in range(MAX_LAST_PASSES):
            if not self._due and not self._armed:
                break
            await self.perform(Maintain())

    async def perform(self, action: Action) -> None:
        """Perform an action, again after each failure."""
        async with asyncio.timeout(ACTION_TIMEOUT_S), asyncio.TaskGroup() as tasks:
            if self._due and self._due[0].postgres:
                tasks.create_task(self._kill_postgres(self._due.popleft()))
            elif self._due and not self._armed:
                await self._arm(self._due.popleft())
            while not await self._try(action):
                await asyncio.sleep(0.05)

    async def restart(self) -> None:
        """Stop the service in good order, if it lives, and start it again."""
        await self.memory.stop()
        await self._start_again()

    async def _try(self, action: Action) -> bool:
        """Perform an action once; return whether it succeeded."""
        process = self.memory.process
        assert process is not None
        if process.returncode is not None:
            await self._start_again()
            return False
        work = asyncio.create_task(self.actions.perform(action))
        death = asyncio.create_task(process.wait())
        await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            death.cancel()
            try:
                await work
            except (Unavailable, Conflict, DeadlineExceeded) as error:
                # pytest shows it if the action never succeeds
                print(f"{type(action).__name__}: {error}")
                return False
            return True
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return False

    async def _start_again(self) -> None:
        assert self.memory.process is not None
        code = self.memory.process.returncode
        assert code in (0, KILLED), self.memory.log[-3000:]
        self.deaths += code == KILLED
        self._armed = False
        await self.memory.start()
        await self._expire_leases()

    async def _expire_leases(self) -> None:
        while True:
            try:
                await self.database.execute(_EXPIRE_LEASES)
            except Unavailable:
                await asyncio.sleep(0.05)
            else:
                return

    async def _arm(self, kill: Kill) -> None:
        crash = Crash(line=kill.line, delay_s=kill.delay_s)
        await self.memory.bus.request(CRASH, crash, Empty, 10.0)
        self._armed = True

    async def _kill_postgres(self, kill: Kill) -> None:
        await asyncio.sleep(kill.delay_s)
        assert self.postgres._process is not None
        self.postgres._process.kill()
        await self.postgres.wait()
        self.deaths += 1
        await self.postgres.start()


def model_settings(name: str, dimensions: int) -> dict[str, str]:
    """Return the settings of the service for an embedding model."""
    return {"CHOIR_EMBEDDING_MODEL": name, "CHOIR_EMBEDDING_DIMENSIONS": str(dimensions)}


@contextlib.asynccontextmanager
async def open_installation() -> AsyncIterator[Installation]:
    """Start the servers of an installation; the service itself is started by `begin`."""
    async with contextlib.AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(running_postgres())
        nats = await stack.enter_async_context(running_nats())
        bus = await stack.enter_async_context(Bus(nats.url, BUS_KEY, "year"))
        database = await stack.enter_async_context(
            Database(postgres.dsn, PASSWORD, size=4, application="year")
        )
        chat = await stack.enter_async_context(ChatProvider(answer_model))
        vectors = await stack.enter_async_context(ScriptedProvider())
        home = stack.enter_context(make_directory())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="choir-house-")))
        model = chat.settings.model_copy(update={"timeout_ms": 30_000})
        env = {
            **SETTINGS,
            **model_settings(*SPRING_MODEL),
            "CHOIR_EMBEDDING_ENDPOINT": vectors.url,
            "CHOIR_TEST_CLOCK": str(home / "clock"),
        }
        secrets = {
            "nats_key": BUS_KEY,  # the service's own key is refused the endpoints of the test
            "embedding_key": "embedding-key",
            "model": json.loads(model.model_dump_json()),
            "model_key": "model-key",
        }
        memory = MemoryProcess(
            postgres.dsn, nats.url, bus, home, env, secrets, module="tests.faults.year.service"
        )
        stack.push_async_callback(memory.kill)
        installation = Installation(
            memory=memory,
            postgres=postgres,
            database=database,
            actions=YearActions(memory=memory, database=database, folder=folder),
            clock=home / "clock",
            settings=MemoryServiceConfig(model=model),
        )
        endpoint = Endpoint(subjects.read_memory_settings(), Empty, installation.read_settings)
        endpoints = (endpoint, *control_endpoints(RecordingLedger()))
        await stack.enter_async_context(bus.serve("choir-control", "1.0.0", *endpoints))
        yield installation
