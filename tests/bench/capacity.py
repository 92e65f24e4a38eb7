"""What an agent and a message cost, for docs/operations/capacity.md: `python -m tests.bench.capacity`.

The agents of the first table are simulated: each has a socket, a lease, an open stream of signals, and sends
a heartbeat every five seconds, as an idle agent does. Then all send events at once. The second table comes
from fifty real agents that answer people.

A simulated agent says hello once all have started, for which control waits 15 s: 1,000 need a machine without
other work.
"""

import argparse
import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import asyncpg
import psutil

from tests.bench.figures import percentile
from tests.bench.throughput import fifty_agents_config, measure_throughput
from tests.support.load import MB, LoadAgent, LoadTest, running_load, sample_event
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.stack import EmbeddedStack, running_stack

SIZES = (1, 10, 100, 1_000)
INTERVAL_S = 5.0
"""The default of `heartbeat_interval_ms`."""
IDLE_S = 20.0
EVENTS_IN_ALL = 4_000
OUT = Path(".bench/capacity.json")
_WRITTEN = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8, pg_database_size(current_database())::float8,
       (SELECT coalesce(sum(n_tup_ins + n_tup_upd), 0)::float8 FROM pg_stat_user_tables)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a unit of work costs: a second of all idle agents, an event, or a message with its answer."""

    cpu_ms: dict[str, float]
    """Processor time by process; `agents` is all agents together."""
    rows: float
    """Rows that were inserted or updated."""
    database_bytes: float
    """Growth of the database, with its indexes."""
    log_bytes: float
    """Write-ahead log."""


@dataclass(frozen=True, slots=True)
class CrowdFigures:
    """A number of simulated agents at one control."""

    agents: int
    load: float
    """Of the machine in the minute before the end, with the bench itself."""
    start_s: float
    """From the start of control until each agent has a session and said hello."""
    control_mb: float
    postgres_mb: float
    """By proportional share."""
    descriptors: int
    """Open files and connections of control."""
    beat_p99_ms: float
    """Idle heartbeats, from when they were due."""
    events_per_s: float
    """With all agents sending one event after the other."""
    idle_second: Cost
    event: Cost


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of the processes and the database at one moment."""

    at: float
    cpu_s: dict[str, float]
    log_bytes: float
    database_bytes: float
    rows: float

    def cost_until(self, end: "Sample", units: float) -> Cost:
        """Return the cost of one of `units` between this sample and a later one."""
        return Cost(
            {
                name: round(1000 * (end.cpu_s[name] - self.cpu_s[name]) / units, 3)
                for name in end.cpu_s
            },
            round((end.rows - self.rows) / units, 2),
            round((end.database_bytes - self.database_bytes) / units),
            round((end.log_bytes - self.log_bytes) / units),
        )


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process and its children, also of those that ended."""
    seconds = 0.0
    for process in _tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[: 4 if process.pid == pid else 2])
    return seconds


def _pss_mb(pid: int) -> float:
    weight = 0.0
    for process in _tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            weight += process.memory_full_info().pss
    return weight / MB


async def take_sample(
    database: asyncpg.Connection, cpu_s: Callable[[], dict[str, float]]
) -> Sample:
    """Read the counters, once the backends have sent their statistics."""
    used, at = cpu_s(), time.perf_counter()
    await asyncio.sleep(1.5)
    row = await database.fetchrow(_WRITTEN)
    assert row is not None
    log_bytes, database_bytes, rows = row
    return Sample(at, used, log_bytes, database_bytes, rows)


async def _open_stream(member: LoadAgent) -> asyncio.StreamWriter:
    """Open the stream of signals of an agent, which control answers without an end."""
    reader, writer = await asyncio.open_unix_connection(member.socket)
    writer.write(
        b"GET /events HTTP/1.1\r\nHost: choir\r\nAccept: text/event-stream\r\nX-Choir-Request-Id: req-2\r\n"
        + f"Authorization: Bearer {member.token}\r\nX-Choir-Session-Id: {member.session_id}\r\n\r\n".encode()
    )
    status = await asyncio.wait_for(reader.readline(), 30)
    assert status.startswith(b"HTTP/1.1 200"), status
    return writer


async def _beat_idly(crowd: LoadTest) -> list[float]:
    """Send the heartbeats of idle agents for a while; return the seconds from when each was due."""
    taken: list[float] = []
    start = time.perf_counter()

    async def beat(number: int, member: LoadAgent) -> None:
        due = start + INTERVAL_S * number / len(crowd.members)
        while due < start + IDLE_S:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await member.send(member.beat([]))
            taken.append(time.perf_counter() - due)
            due += INTERVAL_S

    await asyncio.gather(*(beat(number, member) for number, member in enumerate(crowd.members)))
    await asyncio.sleep(max(0.0, start + IDLE_S - time.perf_counter()))
    return taken


async def _send_events(crowd: LoadTest) -> tuple[int, float]:
    """Let all agents send events at once; return their number and the seconds."""
    each = max(2, EVENTS_IN_ALL // len(crowd.members))
    prepared = [(it, [it.beat([sample_event(n)]) for n in range(each)]) for it in crowd.members]

    async def send(member: LoadAgent, requests: list[bytes]) -> None:
        assert member.line is not None
        for request in requests:
            while (status := (await member.line.send(request))[0]) != 200:
                assert status == 503, status  # a busy control says when it refuses
                await asyncio.sleep(0.05)

    start = time.perf_counter()
    await asyncio.gather(*(send(member, requests) for member, requests in prepared))
    return each * len(crowd.members), time.perf_counter() - start


async def measure_crowd(agents: int) -> CrowdFigures:
    """Measure one number of simulated agents."""
    async with running_postgres() as postgres, contextlib.AsyncExitStack() as stack:
        start = time.perf_counter()
        crowd = await stack.enter_async_context(running_load(agents, postgres.dsn, PASSWORD))
        start_s = time.perf_counter() - start
        database = await asyncpg.connect(postgres.dsn, password=PASSWORD)
        stack.push_async_callback(database.close)
        for member in crowd.members:
            stack.callback((await _open_stream(member)).close)
        server = postgres.pid
        assert server is not None

        def cpu_s() -> dict[str, float]:
            return {"control": crowd.cpu_s, "postgres": _cpu_s(server)}

        before = await take_sample(database, cpu_s)
        beats = await _beat_idly(crowd)
        idle = await take_sample(database, cpu_s)
        control = psutil.Process(crowd.process.pid)
        memory, descriptors = (crowd.rss_mb, _pss_mb(server)), control.num_fds()
        count, seconds = await _send_events(crowd)
        end = await take_sample(database, cpu_s)
    return CrowdFigures(
        agents=agents,
        load=round(os.getloadavg()[0], 1),
        start_s=round(start_s, 1),
        control_mb=round(memory[0], 1),
        postgres_mb=round(memory[1], 1),
        descriptors=descriptors,
        beat_p99_ms=round(1000 * percentile(beats, 0.99), 1),
        events_per_s=round(count / seconds),
        idle_second=before.cost_until(idle, idle.at - before.at),
        event=idle.cost_until(end, count),
    )


async def measure_message(stack: EmbeddedStack) -> dict[str, object]:
    """Measure plain answers of the fifty agents of a stack, and the memory of the agents."""
    pids = {name: stack.pid(name) for name in stack.children()["children"]}

    def cpu_s() -> dict[str, float]:
        agents = sum(_cpu_s(it.pid) for it in psutil.Process(pids["control"]).children())
        seconds = {name: _cpu_s(pid) for name, pid in pids.items()}
        return {**seconds, "control": seconds["control"] - agents, "agents": agents}

    await measure_throughput(stack)  # warm, and each agent has talked
    database = await asyncpg.connect(stack.dsn, password=stack.secret("postgres-admin"))
    try:
        before = await take_sample(database, cpu_s)
        figures = await measure_throughput(stack)
        end = await take_sample(database, cpu_s)
    finally:
        await database.close()
    turns = figures["turns"] + figures["users"]  # the warm-up, too
    agents = psutil.Process(pids["control"]).children()
    return {
        "load": round(os.getloadavg()[0], 1),
        "turns_per_s": figures["turns_per_s"],
        "agent_mb": round(sum(_pss_mb(it.pid) for it in agents) / figures["users"], 1),
        "message": asdict(before.cost_until(end, turns)),
    }


def main() -> None:
    """Measure both tables, print them as JSON and write them to `.bench/capacity.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    results: list[object] = []
    for agents in options.sizes:
        results.append(asdict(asyncio.run(measure_crowd(agents))))
        print(json.dumps(results[-1]), flush=True)
    with running_stack(prepare=fifty_agents_config, like_user=True) as stack:
        results.append(asyncio.run(measure_message(stack)))
    print(json.dumps(results[-1]))
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
