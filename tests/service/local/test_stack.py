"""The supervisor and the embedded stack: real children, real kills."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import psutil
import pytest

from choir_common.errors import StartupError
from choir_common.wire.config import ModelConfig
from choir_local.home import Home
from choir_local.launch import Command
from choir_local.liveness import LivenessProbe
from choir_local.model_choice import ModelChoice
from choir_local.model_record import record_choice
from choir_local.settings import LocalSettings
from choir_local.stack import Stack, running_stack, stop_stack
from choir_local.stack_state import ChildState, StackState, lock_home, read_state, write_state
from choir_local.supervisor import ChildSpec, Supervisor
from tests.security.runtimes.confined import stand_in_control
from tests.support.home import make_short_directory

SLEEP = (sys.executable, "-S", "-c", "import time; time.sleep(600)")


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a state directory whose path is short enough for sockets."""
    path = make_short_directory("choir-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def settings_for(home: Path, **more: int) -> LocalSettings:
    given = {"http_port": 0, **more}
    return LocalSettings(home=home, model_source="rehearsal", **given)  # type: ignore[arg-type]


@dataclass
class Table:
    """A supervisor, and what it reported last and in which order."""

    states: dict[str, ChildState]
    phases: list[tuple[str, str]]

    def children_changed(self, states: dict[str, ChildState]) -> None:
        for name, state in states.items():
            if name not in self.states or self.states[name].phase != state.phase:
                self.phases.append((name, state.phase))
        self.states = dict(states)

    def all_ready(self) -> None:
        """Nothing follows."""

    async def reaches(self, name: str, phase: str, restarts: int = 0) -> ChildState:
        async with asyncio.timeout(90):
            while True:
                state = self.states.get(name)
                if state and state.phase == phase and state.restarts >= restarts:
                    return state
                await asyncio.sleep(0.005)


async def answering(_: int) -> bool:
    return True


@dataclass
class FakeProgram:
    """A program whose command and answers a test decides."""

    command: Callable[[], Awaitable[Command]]
    ready: Callable[[int], Awaitable[bool]] = answering
    alive: Callable[[int], Awaitable[bool]] = answering

    async def prepare_command(self) -> Command:
        return await self.command()

    async def is_ready(self, pid: int) -> bool:
        return await self.ready(pid)

    async def is_alive(self, pid: int) -> bool:
        return await self.alive(pid)


def child(name: str, argv: tuple[str, ...] = SLEEP, **more: object) -> ChildSpec:
    async def command() -> Command:
        return Command(argv)

    program = FakeProgram(command, more.pop("ready", answering), more.pop("alive", answering))  # type: ignore[arg-type]
    return ChildSpec(name, program, **more)  # type: ignore[arg-type]


async def run_table(
    home: Path, *children: ChildSpec
) -> tuple[Table, Supervisor, asyncio.Task[None]]:
    table = Table({}, [])
    supervisor = Supervisor(children, logs=home / "logs", observer=table)
    return table, supervisor, asyncio.create_task(supervisor.run())


async def test_children_start_after_and_stop_before_what_they_depend_on(home: Path) -> None:
    table, supervisor, running = await run_table(
        home,
        child("roof", depends_on=("wall",)),
        child("wall", depends_on=("ground",)),
        child("ground"),
        child("door", stops_before=("wall",)),
    )
    await table.reaches("roof", "ready")
    supervisor.stop()
    await running
    ready = [name for name, phase in table.phases if phase == "ready" and name != "door"]
    assert ready == ["ground", "wall", "roof"]
    stopped = [name for name, phase in table.phases if phase == "stopped"]
    assert stopped[-2:] == ["wall", "ground"]
    assert set(stopped[:2]) == {"roof", "door"}


async def test_a_child_that_dies_is_started_again(home: Path) -> None:
    table, supervisor, running = await run_table(home, child("mortal"))
    for kills in range(1, 4):
        state = await table.reaches("mortal", "ready", restarts=kills - 1)
        assert state.pid is not None
        os.kill(state.pid, signal.SIGKILL)
        state = await table.reaches("mortal", "ready", restarts=kills)
        assert state.last_exit == -signal.SIGKILL
    supervisor.stop()
    await running
    assert table.states["mortal"].pid is None


QUICK_PROBE = LivenessProbe(every=timedelta(milliseconds=20))


def is_missing(path: Path) -> Callable[[int], Awaitable[bool]]:
    """Return a check that fails while `path` is there."""

    async def alive(_: int) -> bool:
        return not path.exists()

    return alive


async def test_a_child_that_stops_answering_is_killed_and_started_again(home: Path) -> None:
    hangs = home / "hangs"

    async def command() -> Command:
        hangs.unlink(missing_ok=True)
        return Command(SLEEP)

    steady = child("steady", probe=QUICK_PROBE)
    table, supervisor, running = await run_table(
        home,
        ChildSpec("hanging", FakeProgram(command, alive=is_missing(hangs)), probe=QUICK_PROBE),
        steady,
    )
    first = await table.reaches("hanging", "ready")
    hangs.touch()
    state = await table.reaches("hanging", "ready", restarts=1)
    assert state.pid != first.pid
    assert state.last_exit == -signal.SIGKILL
    assert table.states["steady"].restarts == 0
    supervisor.stop()
    await running


async def test_a_child_that_hangs_again_and_again_is_left_alone_and_it_is_said(home: Path) -> None:
    hangs = home / "hangs"
    hangs.touch()
    table, supervisor, running = await run_table(
        home, child("hanging", alive=is_missing(hangs), probe=QUICK_PROBE)
    )
    state = await table.reaches("hanging", "ready", restarts=3)
    async with asyncio.timeout(60):
        while "replacement limit" not in table.states["hanging"].note:
            await asyncio.sleep(0.01)
    assert table.states["hanging"].pid == state.pid
    supervisor.stop()
    await running


async def test_what_a_killed_control_left_running_is_ended_before_the_next_one_starts(
    home: Path,
) -> None:
    tool_file = home / "ws" / "report.json"
    code = """
tool = subprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 & echo $!'], stdout=subprocess.PIPE)
report(int(tool.stdout))
time.sleep(60)
"""
    argv = stand_in_control(home, code)
    tools: list[psutil.Process] = []

    async def command() -> Command:
        assert not any(works(tool) for tool in tools)
        tool_file.unlink(missing_ok=True)
        return Command(argv)

    async def ready(_: int) -> bool:
        return tool_file.exists()

    table, supervisor, running = await run_table(
        home, ChildSpec("control", FakeProgram(command, ready))
    )
    state = await table.reaches("control", "ready")
    assert state.pid is not None
    tools.append(psutil.Process(int(tool_file.read_text())))
    os.kill(state.pid, signal.SIGKILL)
    state = await table.reaches("control", "ready", restarts=1)
    assert state.pid is not None
    tools.append(psutil.Process(int(tool_file.read_text())))
    os.kill(state.pid, signal.SIGKILL)
    supervisor.stop()
    await running
    assert not any(works(tool) for tool in tools)


async def test_orphans_that_end_do_not_stay_zombies(home: Path) -> None:
    ends = home / "ends"
    waits = f"while [ ! -e {ends} ]; do sleep 0.05; done"
    fork = (
        "import subprocess, time; "
        f"subprocess.run(['setsid', '-f', 'sh', '-c', {waits!r}]); time.sleep(600)"
    )
    unrelated = set(psutil.Process().children())  # of other tests in this process
    table, supervisor, running = await run_table(
        home, child("forking", (sys.executable, "-S", "-c", fork))
    )
    await table.reaches("forking", "ready")

    def adopted() -> set[psutil.Process]:
        ours = set(psutil.Process().children()) - unrelated
        return {process for process in ours if process.pid != table.states["forking"].pid}

    orphans: set[psutil.Process] = set()
    async with asyncio.timeout(60):
        while not orphans:
            orphans = adopted()
            await asyncio.sleep(0.01)
        ends.touch()
        while orphans & adopted():
            await asyncio.sleep(0.1)
    supervisor.stop()
    await running


async def test_a_child_that_never_starts_stops_all_with_its_own_words(home: Path) -> None:
    sulk = (sys.executable, "-S", "-c", "import sys; sys.exit('I will not')")

    async def never(_: int) -> bool:
        return False

    table, _, running = await run_table(home, child("good"), child("sulky", sulk, ready=never))
    with pytest.raises(StartupError, match=r"sulky ended with code 1.*I will not.*sulky\.log"):
        await running
    assert table.states["good"].phase == "stopped"


async def test_a_child_that_is_not_ready_in_time_stops_all(home: Path) -> None:
    async def never(_: int) -> bool:
        return False

    slow = child("slow", ready=never, ready_within=timedelta(seconds=0.2))
    _, _, running = await run_table(home, slow)
    with pytest.raises(StartupError, match=r"slow was not ready within 0\.2 s"):
        await running


async def test_a_child_that_does_not_stop_is_killed(home: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); "
    argv = (sys.executable, "-S", "-c", deaf + "time.sleep(600)")

    async def deaf_by_now(_: int) -> bool:
        return (home / "logs" / "deaf.log").read_text() != ""

    patient = child("deaf", argv, ready=deaf_by_now, stop_within=timedelta(seconds=0.3))
    table, supervisor, running = await run_table(home, patient)
    await table.reaches("deaf", "ready")
    supervisor.stop()
    await running
    assert table.states["deaf"].last_exit == -signal.SIGKILL


async def test_a_second_stop_does_not_wait(home: Path) -> None:
    deaf = (
        sys.executable,
        "-S",
        "-c",
        "import signal, time; signal.signal(15, 1); time.sleep(600)",
    )
    table, supervisor, running = await run_table(home, child("deaf", deaf))
    await table.reaches("deaf", "ready")
    await asyncio.sleep(0.2)
    supervisor.stop()
    supervisor.stop()
    async with asyncio.timeout(60):
        await running


async def test_standard_input_reaches_the_child_as_a_file(home: Path) -> None:
    read = "print('heard', open('/dev/stdin').read(), flush=True); import time; time.sleep(600)"

    async def command() -> Command:
        return Command((sys.executable, "-S", "-c", read), stdin=b'{"nats_key": "t"}')

    async def heard(_: int) -> bool:
        return "heard" in (home / "logs" / "ear.log").read_text()

    table, supervisor, running = await run_table(
        home, ChildSpec("ear", FakeProgram(command, heard))
    )
    await table.reaches("ear", "ready")
    supervisor.stop()
    await running
    line = json.loads((home / "logs" / "ear.log").read_text())
    assert (line["source"], line["message"]) == ("ear", 'heard {"nats_key": "t"}')


async def test_the_servers_of_the_stack_return_after_a_kill(home: Path) -> None:
    async with running_stack(settings_for(home), services=()) as stack:
        nats_url = stack.state.endpoints["nats"]
        for name in ("postgres", "nats", "rehearsal"):
            before = stack.state.children[name]
            assert before.pid is not None
            os.kill(before.pid, signal.SIGKILL)
            async with asyncio.timeout(90):
                while (now := stack.state.children[name]).pid in (before.pid, None) or (
                    now.phase != "ready"
                ):
                    await asyncio.sleep(0.01)
            assert now.restarts == 1
        assert stack.state.endpoints["nats"] == nats_url
        password = json.loads((home / "secrets.json").read_text())["postgres-admin"]
        connection = await asyncpg.connect(stack.state.endpoints["postgres"], password=password)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
    assert stack.state.phase == "stopped"
    assert all(state.pid is None for state in stack.state.children.values())


async def test_a_home_is_held_by_one_stack_at_a_time(home: Path) -> None:
    async with running_stack(settings_for(home), services=()) as stack:
        with pytest.raises(StartupError, match=rf"already runs in {home}.*{os.getpid()}"):
            await Stack(settings_for(home), services=()).run()
        assert stack.state.phase == "ready"
        state = read_state(home / "run" / "stack.json")
        assert state is not None
        assert state.phase == "ready"


async def test_a_port_that_is_taken_is_named_and_nothing_is_left_running(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartupError, match=rf"{port}.*CHOIR_HTTP_PORT"):
            await Stack(settings_for(home, http_port=port), services=()).run()
    state = read_state(home / "run" / "stack.json")
    assert state is not None
    assert (state.phase, "CHOIR_HTTP_PORT" in state.error) == ("failed", True)
    assert not (home / "data" / "postgres").exists()


async def test_a_home_whose_path_is_too_long_is_said_so(home: Path) -> None:
    with pytest.raises(StartupError, match="at most 107"):
        await Stack(settings_for(home / ("d" * 60)), services=()).run()


HOST = """
import asyncio, sys
from pathlib import Path
from choir_local.settings import LocalSettings
from choir_local.stack import Stack, run_until_signal
settings = LocalSettings(home=Path(sys.argv[1]), http_port=0, model_source="rehearsal")
asyncio.run(run_until_signal(Stack(settings, services=())))
"""


async def start_host(home: Path) -> subprocess.Popen[bytes]:
    host = subprocess.Popen([sys.executable, "-c", HOST, home])
    async with asyncio.timeout(60):
        while (state := read_state(home / "run" / "stack.json")) is None or (
            state.phase != "ready" or state.supervisor_pid != host.pid
        ):
            assert host.poll() is None
            await asyncio.sleep(0.02)
    return host


def works(process: psutil.Process) -> bool:
    """Tell whether a process is more than a zombie that nobody has waited for."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_nothing_outlives_a_killed_supervisor_and_the_next_one_starts(home: Path) -> None:
    host = await start_host(home)
    state = read_state(home / "run" / "stack.json")
    assert state is not None
    left = [psutil.Process(child.pid) for child in state.children.values() if child.pid]
    assert len(left) == 3
    host.kill()
    host.wait()
    async with running_stack(settings_for(home), services=()) as stack:
        assert stack.state.phase == "ready"
        assert not any(works(process) for process in left)


async def test_down_stops_a_stack_of_another_process(home: Path) -> None:
    host = await start_host(home)
    assert await stop_stack(Home(home))
    assert await asyncio.to_thread(host.wait, 10) == 0
    assert not await stop_stack(Home(home))


async def test_who_has_the_pid_of_an_earlier_stack_gets_no_signal(home: Path) -> None:
    """A stack that starts holds the lock, and the state file is still of the one before."""
    place = Home(home)
    place.make()
    bystander = subprocess.Popen(SLEEP)
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, signals.put_nowait, signal.SIGTERM)
    try:
        now = datetime.now(UTC)
        earlier = StackState(
            phase="ready", supervisor_pid=bystander.pid, started_at=now, home=str(home)
        )
        with lock_home(place):  # this process starts
            write_state(place.state_file, earlier)
            stopping = asyncio.create_task(stop_stack(place))
            assert await asyncio.wait_for(signals.get(), 60) == signal.SIGTERM
        assert await stopping and bystander.poll() is None and signals.empty()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        bystander.kill()
        bystander.wait()


async def test_the_rehearsal_model_starts_in_place_of_no_real_one(home: Path) -> None:
    Home(home).make()
    model = ModelConfig(model="gpt-5", endpoint="http://127.0.0.1:1/v1", secret="openai-key")
    record_choice(Home(home).model_file, ModelChoice(model, "gpt-5 at OpenAI"))
    settings = settings_for(home).model_copy(
        update={
            "model_source": "auto",
            "openai_api_key": None,
            "openrouter_api_key": None,
            "ollama_host": "http://127.0.0.1:1",
            "lmstudio_url": "http://127.0.0.1:1",
            "llamacpp_url": "http://127.0.0.1:1",
            "vllm_url": "http://127.0.0.1:1",
        }
    )
    with pytest.raises(StartupError, match="The previous start used gpt-5 at OpenAI"):
        async with running_stack(settings, services=()):
            pass
