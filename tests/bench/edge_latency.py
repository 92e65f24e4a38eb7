"""Answer time of the edge lane while four core jobs work and one hangs, compared with an idle agent.

Both are measured alternately in one session. The jobs call a tool at every step and use a model that takes
200 ms, which is several times faster than real models, so they keep the agent busier than real jobs do. With
a model of 50 ms, four jobs use most of a CPU core, and the result mainly shows that.
"""

import asyncio
import json
import time
from pathlib import Path

from tests.bench.figures import BusyEdgeFigures, busy_figures
from tests.support.stack import ConsoleUser, EmbeddedStack, console_user, read_log, sessions_of

ROUNDS = 6
TURNS = 20
WORKING = tuple(f"work-{number}" for number in range(4))
HANGING = "hang"
MODEL_MS = (200, 50)
ENDLESS = 1_000_000_000


def unlimited_budgets_config(home: Path) -> None:
    """Change the initial config.json in `home` so that no budget ends the measurement."""
    path = home / "config.json"
    config = json.loads(path.read_text())
    config["budgets"] = {
        "total_session_tokens": ENDLESS,
        "max_tool_calls_per_session": ENDLESS,
        "per_job_max_steps": ENDLESS,
        "per_job_max_tool_calls": ENDLESS,
    }
    path.write_text(json.dumps(config, indent=2))


async def measure_busy_edge(stack: EmbeddedStack, model_ms: int) -> BusyEdgeFigures:
    """Return the edge lane's answer times with an idle and with a busy agent."""
    before = await _steps_of_jobs(stack)
    idle: list[float] = []
    busy: list[float] = []
    async with console_user(stack.endpoint) as user:
        await _answers(user, [])
        for _ in range(ROUNDS):
            await _answers(user, idle)
            await _begin_work(user, model_ms)
            await _answers(user, busy)
            await _end_work(user)
    return busy_figures(idle, busy, await _steps_of_jobs(stack) - before)


async def _answers(user: ConsoleUser, taken: list[float]) -> None:
    for _ in range(TURNS):
        start = time.perf_counter()
        await user.asks("#tools=0 hello")
        taken.append((time.perf_counter() - start) * 1000)


async def _begin_work(user: ConsoleUser, model_ms: int) -> None:
    orders = [f"#spawn {name}: #tools=1000 #delay={model_ms}" for name in WORKING]
    answer = await user.asks("\n".join([*orders, f"#spawn {HANGING}: #hang"]))
    if answer.count("started") != len(WORKING) + 1:
        raise AssertionError(answer)
    await asyncio.sleep(0.2)


async def _end_work(user: ConsoleUser) -> None:
    told = sum(message.kind == "report" for message in user.heard) + len(WORKING) + 1
    await user.asks("\n".join(f"#cancel {name}" for name in (*WORKING, HANGING)))
    async with asyncio.timeout(30), user.arrived:
        await user.arrived.wait_for(
            lambda: sum(message.kind == "report" for message in user.heard) >= told
        )


async def _steps_of_jobs(stack: EmbeddedStack) -> int:
    (session, *_) = await sessions_of(stack)
    events = await read_log(stack, session["session_id"])
    return sum(e.type == "model_output" and e.lane.startswith("core:") for e in events)
