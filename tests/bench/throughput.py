"""Throughput with 50 users at 50 agents at once: turns per second of the whole system, and latencies."""

import asyncio
import contextlib
import json
import time
from pathlib import Path

from choir_common.http.client import make_client
from tests.bench.figures import percentile
from tests.support.stack import ConsoleUser, EmbeddedStack, console_user

USERS = 50
TURNS_EACH = 12
AGENTS_UP_WITHIN_S = 180


def fifty_agents_config(home: Path) -> None:
    """Change the initial config.json in `home` to fifty agents, each with a DM and a workspace."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    agent = config["agents"].pop("main")
    for number in range(USERS):
        name = f"a{number}"
        defaults = {**agent["defaults"], "workspace": name, "dm": name}
        config["agents"][name] = {**agent, "defaults": defaults, "autostart": True}
        config["workspaces"][name] = {"path": str(home / "workspaces" / name)}
        config["dms"][name] = {"gateway": "console", "user_id": name, "admin": False}
    path.write_text(json.dumps(config, indent=2))


async def await_agents(stack: EmbeddedStack) -> None:
    """Wait until every agent runs."""
    async with asyncio.timeout(AGENTS_UP_WITHIN_S), make_client(stack.endpoint) as client:
        while True:
            views = (await client.get("/v1/agents")).json()["items"]
            if sum(view["state"] == "running" for view in views) >= USERS:
                return
            await asyncio.sleep(0.5)


async def _talk(user: ConsoleUser, taken: list[float]) -> None:
    for _ in range(TURNS_EACH):
        start = time.perf_counter()
        await user.asks("#tools=0 hello", timeout_s=120)
        taken.append(time.perf_counter() - start)


async def measure_throughput(stack: EmbeddedStack) -> dict[str, float]:
    """Return turns per second and latencies with all users talking at once."""
    await await_agents(stack)
    async with contextlib.AsyncExitStack() as open_users:
        users = [
            await open_users.enter_async_context(console_user(stack.endpoint, f"a{number}"))
            for number in range(USERS)
        ]
        await asyncio.gather(*(user.asks("#tools=0 warm up", timeout_s=120) for user in users))
        taken: list[float] = []
        start = time.perf_counter()
        await asyncio.gather(*(_talk(user, taken) for user in users))
        seconds = time.perf_counter() - start
    return {
        "users": USERS,
        "turns": len(taken),
        "turns_per_s": round(len(taken) / seconds, 1),
        "p50_ms": round(percentile(taken, 0.5) * 1000, 1),
        "p99_ms": round(percentile(taken, 0.99) * 1000, 1),
    }
