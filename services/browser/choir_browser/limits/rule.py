"""Decide which of Chromium's processes is slowed down and which is ended. Pure; asked by watch.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from choir_browser.limits.processes import Process

# This share of a processor a page may use for ever; what it uses above it piles up.
FREE_SHARE = 0.25
# A page that is built up works hard for a moment; with more than this, the others go first.
SLOWED_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be used at most."""

    agent_memory: int
    """Bytes, of all pages of one agent together."""
    memory: int
    """Bytes, of all of Chromium."""
    work_s: float
    """Processor seconds that a page may pile up."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A process to end, and the words for the agent whose page it shows."""

    process: Process
    why: str


Owners = Mapping[str, frozenset[int]]
"""By agent, the processes that show its pages."""


def piled_up(pile_s: float, used_s: float, seconds: float) -> float:
    """Return the processor seconds above its share of a page that used `used_s` in `seconds`."""
    return max(0.0, pile_s + used_s - FREE_SHARE * seconds)


def owners_wanted(found: Sequence[Process], bounds: Bounds) -> bool:
    """Tell whether any agent could be over its memory: who owns what is dear to ask."""
    pages = [process.memory for process in found if process.renderer]
    return len(pages) > 1 and sum(pages) > bounds.agent_memory


def endings(
    found: Sequence[Process], piles: Mapping[int, float], owners: Owners, bounds: Bounds
) -> Sequence[Ending]:
    """List what is to be ended: each page that takes too much, then the fattest of who does."""
    chosen: dict[int, Ending] = {}
    pages = sorted((p for p in found if p.renderer), key=lambda p: p.memory, reverse=True)
    for page in pages:
        if page.memory > bounds.agent_memory:
            chosen[page.pid] = Ending(page, _memory_words(bounds))
        elif piles.get(page.pid, 0.0) > bounds.work_s:
            chosen[page.pid] = Ending(page, _work_words(bounds))
    for own in owners.values():
        theirs = [page for page in pages if page.pid in own]
        ended = any(page.pid in chosen for page in theirs)
        if not ended and sum(page.memory for page in theirs) > bounds.agent_memory:
            chosen[theirs[0].pid] = Ending(theirs[0], _memory_words(bounds))
    if not chosen and sum(process.memory for process in found) > bounds.memory:
        # What a page stores lies in other processes, and is freed with the page: if that helps no
        # more, whoever is fattest now is the one that keeps it all.
        fattest = max(found, key=lambda process: process.memory)
        chosen[fattest.pid] = Ending(fattest, _CROWDED)
    return tuple(chosen.values())


def _memory_words(bounds: Bounds) -> str:
    megabytes = bounds.agent_memory // 1_000_000
    return f"The page was ended: this agent's pages took more than {megabytes} MB of memory."


def _work_words(bounds: Bounds) -> str:
    return (
        f"The page was ended: its scripts worked for {bounds.work_s:g} s and more without a rest."
    )


_CROWDED = "The page was ended: the browser as a whole took more memory than it may."
