"""Answer time in one conversation, alone and while 20 others of the same agent are busy.

Both are measured alternately in one session. Each busy conversation has a turn that calls a tool at every
step, with a model that takes 5 s. The figures say how much the conversations delay each other only if the
machine has CPU left.
"""

import asyncio
import contextlib
import json
import time
from pathlib import Path

from tests.bench.edge_latency import unlimited_budgets_config
from tests.bench.figures import BusyEdgeFigures, busy_figures
from tests.support.stack import ConsoleUser, EmbeddedStack, console_user, read_log, sessions_of

ROUNDS = 3
TURNS = 15
OTHERS = tuple(f"other-{number}" for number in range(20))
STEP_MS = 5_000
BUSY = f"#tools=1000 #delay={STEP_MS} #tool=choir.core.list {{}}"
ENDS_WITHIN_S = 120.0


def many_conversations_config(home: Path) -> None:
    """Change the initial config.json in `home` so that the agent has 20 further conversations."""
    unlimited_budgets_config(home)
    path = home / "config.json"
    config = json.loads(path.read_text())
    config["dms"] |= {name: {"gateway": "console", "user_id": name} for name in OTHERS}
    config["agents"]["main"]["conversations"] = [*OTHERS]
    path.write_text(json.dumps(config, indent=2))


async def measure_conversations(stack: EmbeddedStack) -> BusyEdgeFigures:
    """Return the answer times in the home conversation."""
    alone: list[float] = []
    beside: list[float] = []
    async with contextlib.AsyncExitStack() as users:
        user = await users.enter_async_context(console_user(stack.endpoint))
        others = [
            await users.enter_async_context(console_user(stack.endpoint, name)) for name in OTHERS
        ]
        for one in (user, *others):
            await one.asks("#tools=0 hello")
        first = await _steps_of_others(stack)
        for _ in range(ROUNDS):
            await _answers(user, alone)
            before = await _steps_of_others(stack)
            open_turns = [await _begin(one) for one in others]
            await _wait_until_busy(stack, before)
            await _answers(user, beside)
            await asyncio.gather(*map(_cancel, others, open_turns))
        steps = await _steps_of_others(stack) - first
    return busy_figures(alone, beside, steps)


async def _answers(user: ConsoleUser, taken: list[float]) -> None:
    for _ in range(TURNS):
        start = time.perf_counter()
        await user.asks("#tools=0 hello")
        taken.append((time.perf_counter() - start) * 1000)


async def _begin(user: ConsoleUser) -> str:
    inbox_id = await user.says(BUSY)
    # Else all would take their steps at the same moments.
    await asyncio.sleep(STEP_MS / 1000 / len(OTHERS))
    return inbox_id


async def _wait_until_busy(stack: EmbeddedStack, before: int) -> None:
    async with asyncio.timeout(ENDS_WITHIN_S):
        while await _steps_of_others(stack) < before + len(OTHERS):
            await asyncio.sleep(0.2)


async def _cancel(user: ConsoleUser, inbox_id: str) -> None:
    await user.says("/cancel")
    await user.wait_for_answer(inbox_id, ENDS_WITHIN_S)


async def _steps_of_others(stack: EmbeddedStack) -> int:
    (session, *_) = await sessions_of(stack)
    events = await read_log(stack, session["session_id"])
    return sum(event.type == "model_output" and event.lane != "edge" for event in events)
