"""Times of three kinds of turns, measured in alternating blocks of Choir and baseline."""

import time
from collections.abc import Awaitable, Callable

from tests.bench.baseline import BaselineAgent
from tests.bench.figures import TurnFigures, turn_figures
from tests.support.stack import ConsoleUser

KINDS = {"plain": "#tools=0 hello", "tool1": "#tools=1 go", "tool5": "#tools=5 go"}
ROUNDS = 12
TURNS_PER_BLOCK = 10

Turn = Callable[[str], Awaitable[str]]


async def block(turn: Turn, text: str) -> list[float]:
    """Return the milliseconds of each turn of one block."""
    taken = []
    for _ in range(TURNS_PER_BLOCK):
        start = time.perf_counter()
        await turn(text)
        taken.append((time.perf_counter() - start) * 1000)
    return taken


async def measure_turns(user: ConsoleUser, floor: BaselineAgent) -> dict[str, TurnFigures]:
    """Return the figures of each kind of turn; the first round is a warm-up and is not counted."""
    samples: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in KINDS}
    for round_number in range(ROUNDS + 1):
        for kind, text in KINDS.items():
            choir_ms = await block(user.asks, text)
            floor_ms = await block(floor.turn, text)
            if round_number:
                samples[kind][0].extend(choir_ms)
                samples[kind][1].extend(floor_ms)
    return {kind: turn_figures(choir, floor) for kind, (choir, floor) in samples.items()}
