"""Comparison of turn times at the start and the end of a session of 10,000 events, with compaction.

Plain turns alternate with the baseline at both ends. The baseline's history stays short, so it shows whether
the machine itself became slower.
"""

import json
import time
from pathlib import Path

from choir_common.http.client import make_client
from tests.bench.baseline import BaselineAgent
from tests.bench.edge_latency import unlimited_budgets_config
from tests.bench.figures import LongSessionFigures, long_figures
from tests.support.stack import ConsoleUser, EmbeddedStack, sessions_of

EARLY, LATE, LENGTH = 10, 9_900, 10_000
# share of the model's context window; so low that compaction happens every few turns
COMPACT_AT = 0.02


def compacting_config(home: Path) -> None:
    """Change the initial config.json in `home` for frequent compaction and unlimited budgets."""
    unlimited_budgets_config(home)
    path = home / "config.json"
    config = json.loads(path.read_text())
    config["compaction_threshold"] = COMPACT_AT
    path.write_text(json.dumps(config, indent=2))


async def head_rev(stack: EmbeddedStack) -> int:
    """Return the number of events in the agent's session."""
    (session, *_) = await sessions_of(stack)
    return int(session["head_rev"])


async def compactions(stack: EmbeddedStack) -> int:
    """Return how often the session's log was compacted."""
    (session, *_) = await sessions_of(stack)
    url = f"/v1/sessions/{session['session_id']}/events"
    count, after = 0, 0
    async with make_client(stack.endpoint) as client:
        while True:
            page = (await client.get(url, params={"after": after, "limit": 500})).json()
            count += sum(item["type"] == "memory_compacted" for item in page["items"])
            if page["next"] is None:
                return count
            after = page["items"][-1]["rev"]


async def measure_long_session(
    stack: EmbeddedStack, user: ConsoleUser, floor: BaselineAgent
) -> LongSessionFigures:
    """Grow a session to `LENGTH_NORMALISATION` events and return the turn times at both ends."""
    await _grow(stack, user, EARLY, "#tools=0 hello")
    early = await _measure(stack, user, floor, 100)
    await _grow(stack, user, LATE - 200, "#tools=5 go")
    await _grow(stack, user, LATE, "#tools=0 hello")
    late = await _measure(stack, user, floor, LENGTH)
    return long_figures(early, late, await head_rev(stack), await compactions(stack))


async def _grow(stack: EmbeddedStack, user: ConsoleUser, length: int, text: str) -> None:
    while await head_rev(stack) < length:
        for _ in range(5 if length > EARLY else 1):
            await user.asks(text)


async def _measure(
    stack: EmbeddedStack, user: ConsoleUser, floor: BaselineAgent, until: int
) -> tuple[list[float], list[float]]:
    choir: list[float] = []
    bare: list[float] = []
    while await head_rev(stack) < until:
        for turn, taken in ((user.asks, choir), (floor.turn, bare)):
            start = time.perf_counter()
            await turn("#tools=0 hello")
            taken.append((time.perf_counter() - start) * 1000)
    return choir, bare
