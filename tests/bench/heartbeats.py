"""Heartbeats of 200 agents at one choird, and two baselines, measured in alternating blocks.

capacity   every agent sends its next heartbeat as soon as the previous one is durable
paced      1,500 heartbeats per second on a fixed schedule; a late start counts as latency
floor-pg   a minimal asyncpg loop that appends one row per commit over ten connections
floor-http a minimal uvicorn and FastAPI app that parses the same bodies
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from tests.bench.figures import HeartbeatFigures, percentile
from tests.support.load import (
    HttpConnection,
    LoadAgent,
    LoadTest,
    connect,
    running_load,
    sample_event,
)
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.postgres_proxy import postgres_proxy

AGENTS = 200
ROUNDS = 5
BEATS_EACH = 15
PACE = 1_500
CONNECTIONS = 10
COUNTED = 200
ATTEMPTS = 5
UNAVAILABLE = 503

_APPEND = """
INSERT INTO public.floor_events (session_id, rev, lane, type, payload, at, hash_prev, hash)
VALUES ($1, $2, 'edge', 'tool_call_requested', $3, '', $4, $4)
"""


@dataclass
class Samples:
    """Samples of all rounds."""

    capacity: list[float] = field(default_factory=list)
    """Heartbeats per second, one value per round; the baselines below likewise."""
    floor_pg: list[float] = field(default_factory=list)
    floor_http: list[float] = field(default_factory=list)
    paced_s: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    refused: int = 0
    """Responses with status 503; each heartbeat was sent again, within the measured time."""


def _prepare(crowd: LoadTest, each: int) -> list[tuple[LoadAgent, list[bytes]]]:
    """Build all requests in advance, so that the agents' own work is not measured."""
    return [
        (member, [member.beat([sample_event(n)]) for n in range(each)]) for member in crowd.members
    ]


async def _send_all(member: LoadAgent, requests: list[bytes]) -> int:
    return sum([await _send(member, request) for request in requests])


async def _send(member: LoadAgent, request: bytes) -> int:
    """Send a heartbeat until it is durable, as agents do; return how often a busy choird refused it (503)."""
    assert member.line is not None
    for refused in range(ATTEMPTS):
        status, body = await member.line.send(request)
        if status != UNAVAILABLE:
            assert status == 200, (status, body)
            return refused
    raise AssertionError(f"not durable after {ATTEMPTS} attempts")


async def _capacity(crowd: LoadTest, samples: Samples) -> None:
    prepared = _prepare(crowd, BEATS_EACH)
    cpu, start = crowd.cpu_s, time.perf_counter()
    refused = await asyncio.gather(*(_send_all(member, each) for member, each in prepared))
    samples.refused += sum(refused)
    seconds, count = time.perf_counter() - start, AGENTS * BEATS_EACH
    samples.capacity.append(count / seconds)
    samples.cpu_ms.append((crowd.cpu_s - cpu) / count * 1000)


async def _paced(crowd: LoadTest, samples: Samples) -> None:
    """Send at a fixed rate; latency counts from when a heartbeat was due (no coordinated omission)."""
    prepared = _prepare(crowd, BEATS_EACH)
    begin = time.perf_counter() + 0.1

    async def keep_pace(number: int, member: LoadAgent, requests: list[bytes]) -> None:
        for turn, request in enumerate(requests):
            due = begin + (turn * AGENTS + number) / PACE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            samples.refused += await _send(member, request)
            samples.paced_s.append(time.perf_counter() - due)

    await asyncio.gather(*(keep_pace(n, m, r) for n, (m, r) in enumerate(prepared)))


async def _floor_pg(pool: "asyncpg.Pool[asyncpg.Record]", samples: Samples) -> None:
    payload, digest = sample_event().model_dump_json(), "0" * 64
    each = AGENTS * BEATS_EACH // CONNECTIONS
    first = len(samples.floor_pg) * each

    async def append(session: str) -> None:
        for rev in range(first, first + each):
            await pool.execute(_APPEND, session, rev, payload, digest)

    start = time.perf_counter()
    await asyncio.gather(*(append(f"floor{number}") for number in range(CONNECTIONS)))
    samples.floor_pg.append(each * CONNECTIONS / (time.perf_counter() - start))


async def _floor_http(lines: list[HttpConnection], request: bytes, samples: Samples) -> None:
    async def send(line: HttpConnection) -> None:
        for _ in range(BEATS_EACH):
            status, _ = await line.send(request)
            assert status == 200

    start = time.perf_counter()
    await asyncio.gather(*(send(line) for line in lines))
    samples.floor_http.append(len(lines) * BEATS_EACH / (time.perf_counter() - start))


@contextlib.asynccontextmanager
async def _echo() -> AsyncIterator[list[HttpConnection]]:
    """Start the HTTP baseline; yield one connection per agent."""
    with tempfile.TemporaryDirectory(prefix="choir-echo-") as directory:
        socket = Path(directory) / "s"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.bench.http_baseline", str(socket))
        )
        try:
            async with asyncio.timeout(20):
                while not socket.exists():
                    await asyncio.sleep(0.05)
            lines = [await connect(str(socket)) for _ in range(AGENTS)]
            yield lines
            for line in lines:
                line.close()
        finally:
            process.kill()
            await process.wait()


async def _round_trips(dsn: str) -> float:
    """Return the round trips to Postgres per heartbeat, counted by a proxy."""
    async with postgres_proxy(dsn) as proxy, running_load(1, proxy.dsn, PASSWORD) as crowd:
        member = crowd.members[0]
        requests = [member.beat([sample_event(number)]) for number in range(COUNTED)]
        before = proxy.round_trips
        await _send_all(member, requests)
        return (proxy.round_trips - before) / COUNTED


async def measure_heartbeats(rounds: int = ROUNDS) -> HeartbeatFigures:
    """Return the figures of `rounds` rounds, after one round of warm-up."""
    async with running_postgres() as postgres:
        async with (
            running_load(AGENTS, postgres.dsn, PASSWORD) as crowd,
            asyncpg.create_pool(
                postgres.dsn, password=PASSWORD, min_size=CONNECTIONS, max_size=CONNECTIONS
            ) as pool,
            _echo() as lines,
        ):
            await pool.execute(
                "CREATE TABLE public.floor_events (session_id text, rev bigint, lane text, "
                "type text, payload json, at text, hash_prev text, hash text, "
                "PRIMARY KEY (session_id, rev))"
            )
            request = LoadAgent("a0", "ses", "token", "").beat([sample_event()])
            samples = Samples()
            for number in range(rounds + 1):
                await _floor_pg(pool, samples)
                await _capacity(crowd, samples)
                await _floor_http(lines, request, samples)
                await _paced(crowd, samples)
                # drop the warm-up; one entry stays, because `_floor_pg` numbers its rows by their count
                if number == 0:
                    samples = Samples(floor_pg=samples.floor_pg[:1])
            rss = crowd.rss_mb
        await asyncio.sleep(0)
        await _fresh_database(postgres.dsn)
        trips = await _round_trips(postgres.dsn)
    paced = samples.paced_s
    return HeartbeatFigures(
        agents=AGENTS,
        per_s=round(statistics.median(samples.capacity)),
        floor_pg_per_s=round(statistics.median(samples.floor_pg[1:])),
        floor_http_per_s=round(statistics.median(samples.floor_http)),
        paced_per_s=PACE,
        p50_ms=round(percentile(paced, 0.5) * 1000, 1),
        p99_ms=round(percentile(paced, 0.99) * 1000, 1),
        refused=samples.refused,
        control_cpu_ms=round(statistics.median(samples.cpu_ms), 3),
        round_trips=round(trips, 2),
        control_rss_mb=round(rss, 1),
    )


async def _fresh_database(dsn: str) -> None:
    """Drop control's schema: the next choird must not find the sessions of another state directory."""
    held = await asyncpg.connect(dsn, password=PASSWORD)
    await held.execute("DROP SCHEMA choir_control CASCADE")
    await held.close()
