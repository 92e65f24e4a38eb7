"""Run all measurements and print the results: `python -m tests.bench [--quick] [--out
FILE]`."""

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
from rich.console import Console
from rich.table import Table

from choir_common.errors import Unavailable
from choir_common.http.client import make_client
from tests.bench.baseline import BaselineAgent
from tests.bench.browsing import measure_browsing
from tests.bench.conversations import many_conversations_config, measure_conversations
from tests.bench.edge_latency import MODEL_MS, measure_busy_edge, unlimited_budgets_config
from tests.bench.egress import measure_egress
from tests.bench.figures import BenchResults
from tests.bench.first_token import measure_cpu, measure_first_token
from tests.bench.gateway import measure_gateway
from tests.bench.heartbeats import measure_heartbeats
from tests.bench.long_session import compacting_config, measure_long_session
from tests.bench.memory_usage import measure_memory
from tests.bench.prompt_prefix import prefix_shares, talk_and_measure, uncompacted_config
from tests.bench.schedules import measure_schedules
from tests.bench.throughput import fifty_agents_config, measure_throughput
from tests.bench.tool_calls import measure_calls, measure_container_calls
from tests.bench.turns import measure_turns
from tests.bench.web_page import measure_web_page
from tests.support.stack import ConsoleUser, EmbeddedStack, console_user, running_stack

OUT = Path(".bench/results.json")


async def prompt_of(stack: EmbeddedStack) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the system messages and tools of the agent's last request, for the baseline to send the same."""
    async with httpx2.AsyncClient(base_url=stack.rehearsal_url, trust_env=False) as client:
        request = (await client.get("/v1/stats")).json()["last_request"]
    system = [message for message in request["messages"] if message["role"] == "system"]
    return system, request["tools"]


@contextlib.asynccontextmanager
async def user_and_baseline(
    stack: EmbeddedStack,
) -> AsyncIterator[tuple[ConsoleUser, BaselineAgent]]:
    """Connect a user, and create the baseline, which sends the same prompt as the agent."""
    async with console_user(stack.endpoint) as user:
        await user.asks("#tools=1 warm up")
        system, tools = await prompt_of(stack)
        async with (
            asyncpg.create_pool(stack.dsn, password=stack.secret("postgres-admin")) as pool,
            httpx2.AsyncClient(
                base_url=f"{stack.rehearsal_url}/v1", trust_env=False, timeout=60
            ) as model,
        ):
            floor = BaselineAgent(model, pool, system, tools)
            await floor.prepare()
            yield user, floor


async def turns_and_footprint(stack: EmbeddedStack, results: BenchResults) -> None:
    """Measure turns and the baseline, then the memory of the processes."""
    async with user_and_baseline(stack) as (user, floor):
        results.turns = await measure_turns(user, floor)
    results.prefix_share["compacted as by default"] = await prefix_shares(stack)
    results.rss_mb = await measure_memory(stack)


async def long_session(stack: EmbeddedStack, results: BenchResults) -> None:
    """Measure turns at the start and the end of a long session with compaction."""
    async with user_and_baseline(stack) as (user, floor):
        results.long_session = await measure_long_session(stack, user, floor)
    results.prefix_share["compacted every few turns"] = await prefix_shares(stack)


async def first_answer(stack: EmbeddedStack) -> None:
    """Check that the stack is ready, send one message and wait for its answer."""
    async with make_client(stack.endpoint) as client:
        (await client.get("/readyz")).raise_for_status()
    async with console_user(stack.endpoint) as user:
        await user.asks("hello")


def measure_starts(stack: EmbeddedStack, results: BenchResults) -> None:
    """Stop the stack, then measure a warm start and the time until the first answer."""
    stack.run("down")
    start = time.perf_counter()
    stack.run("up", "--detach")
    results.start_s["warm_up"] = round(time.perf_counter() - start, 2)
    asyncio.run(first_answer(stack))
    results.start_s["warm_first_answer"] = round(time.perf_counter() - start, 2)


def browsing(results: BenchResults) -> None:
    """Measure the browser, or record why it was skipped."""
    try:
        results.browser = asyncio.run(measure_browsing())
    except Unavailable as error:
        results.left_out["browser"] = error.message


def web_page(results: BenchResults) -> None:
    """Measure the web page, or record why it was skipped."""
    try:
        results.web_page = asyncio.run(measure_web_page())
    except Unavailable as error:
        results.left_out["web page"] = error.message


def tool_calls(results: BenchResults) -> None:
    """Measure tool calls in both runtimes, or record why containers were skipped."""
    results.calls["process"] = asyncio.run(measure_calls())
    try:
        results.calls["container"] = asyncio.run(measure_container_calls())
    except Unavailable as error:
        results.left_out["calls in a container"] = error.message


def show(results: BenchResults) -> None:
    """Print the figures as tables, and the skipped measurements."""
    console = Console()
    turns = Table("turn", "choir p50", "p99", "floor-pg p50", "p99", "ratio", title="ms per turn")
    for kind, f in results.turns.items():
        cells = (f.choir_p50_ms, f.choir_p99_ms, f.floor_pg_p50_ms, f.floor_pg_p99_ms, f.ratio)
        turns.add_row(kind, *(f"{cell:.2f}" for cell in cells))
    console.print(turns)
    singles: list[tuple[str, dict[str, float]]] = [
        (f"share of prompt bytes the call before began with, {how}", shares)
        for how, shares in results.prefix_share.items()
    ]
    for pace, busy in results.busy_edge.items():
        title = f"edge lane, 4 core jobs at work ({pace} a step) and 1 hanging"
        singles.append((title, asdict(busy)))
    if results.busy_conversations is not None:
        title = "one conversation, 20 others of its agent at work (bar: ratio 1.5)"
        singles.append((title, asdict(results.busy_conversations)))
    singles += [(f"web page: {what}", figures) for what, figures in results.web_page.items()]
    for runtime, figures in results.calls.items():
        singles.append((f"`true` as a tool call and launched plainly, {runtime}", figures))
    if results.long_session is not None:
        singles.append(("plain turns, early and late", asdict(results.long_session)))
    if results.first_token is not None:
        singles.append(("ms to the first visible token", asdict(results.first_token)))
    if results.heartbeats is not None:
        singles.append(("heartbeats with an event each, one choird", asdict(results.heartbeats)))
    if results.schedules is not None:
        title = "each minute of an idle stack, without and with schedules"
        singles.append((title, asdict(results.schedules)))
    tables = (
        *singles,
        ("CPU ms of a plain turn", results.streaming_cpu),
        ("throughput", results.throughput),
        ("browser, from the request to the text", results.browser),
        ("gateway, through a fake Telegram", results.gateway),
        ("model request, directly and through the egress proxy", results.egress),
        ("resident MB", results.rss_mb),
        ("start, s", results.start_s),
    )
    for title, figures in tables:
        if figures:
            table = Table(title=title)
            for name in figures:
                table.add_column(name)
            table.add_row(*(f"{value:g}" for value in figures.values()))
            console.print(table)
    for name, why in results.left_out.items():
        console.print(f"Left out: {name}. {why}", markup=False)


def main() -> None:
    """Run all measurements, write the results file and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="without the crowd of fifty agents")
    options = parser.parse_args()
    results = BenchResults()
    start = time.perf_counter()
    with running_stack(like_user=True) as stack:
        results.start_s["cold_up"] = round(time.perf_counter() - start, 2)
        asyncio.run(turns_and_footprint(stack, results))
        results.streaming_cpu = asyncio.run(measure_cpu(stack))
        measure_starts(stack, results)
    results.first_token = asyncio.run(measure_first_token())
    with running_stack(prepare=unlimited_budgets_config, like_user=True) as stack:
        for model_ms in MODEL_MS:
            figures = asyncio.run(measure_busy_edge(stack, model_ms))
            results.busy_edge[f"{model_ms} ms"] = figures
    with running_stack(prepare=many_conversations_config, like_user=True) as stack:
        results.busy_conversations = asyncio.run(measure_conversations(stack))
    with running_stack(prepare=uncompacted_config, like_user=True) as stack:
        results.prefix_share["never compacted"] = asyncio.run(talk_and_measure(stack))
    with running_stack(prepare=compacting_config, like_user=True) as stack:
        asyncio.run(long_session(stack, results))
    results.heartbeats = asyncio.run(measure_heartbeats())
    with running_stack(like_user=True) as stack:
        results.schedules = asyncio.run(measure_schedules(stack))
    browsing(results)
    web_page(results)
    results.gateway = asyncio.run(measure_gateway())
    results.egress = asyncio.run(measure_egress())
    tool_calls(results)
    if not options.quick:
        with running_stack(prepare=fifty_agents_config, like_user=True) as stack:
            results.throughput = asyncio.run(measure_throughput(stack))
    results.write(options.out)
    show(results)
    print(json.dumps({"written": str(options.out)}))


if __name__ == "__main__":
    main()
