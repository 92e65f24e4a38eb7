"""Decide which of Chromium's processes to slow down and which to kill, and store the reasons of kills.

No I/O; called by watchdog.py. Chromium reports only that a page, or the whole browser, crashed, so a
reason is stored until the crash of the page is reported to its agent.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from choir_browser.limits.processes import ProcessSample
from choir_common.clock import Clock

# Share of a processor that a page may use permanently; usage above it accumulates.
FREE_CPU_SHARE = 0.25
# Loading a page takes much processor time for a moment; above this, its priority is lowered.
LOW_PRIORITY_AFTER_S = 2.0
# From the kill of a process until Playwright reports the crash of its page.
REASON_VALID_S = 10.0
MAX_REASONS = 16


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Upper limits of resource usage."""

    agent_memory: int
    """Bytes, for all pages of one agent together."""
    memory: int
    """Bytes, for all of Chromium."""
    work_s: float
    """Excess processor seconds that a page may accumulate."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A process to kill, and the reason to report to its agent."""

    process: ProcessSample
    reason: str


PageOwners = Mapping[str, frozenset[int]]
"""Process ids of the renderers of each agent's pages."""


def excess_cpu_s(pile_s: float, used_s: float, seconds: float) -> float:
    """Return a page's excess processor seconds after it used `used_s` in an interval of `seconds`."""
    return max(0.0, pile_s + used_s - FREE_CPU_SHARE * seconds)


def needs_owners(samples: Sequence[ProcessSample], bounds: ResourceLimits) -> bool:
    """Return whether any agent could exceed its memory limit; finding a page's owner is expensive."""
    pages = [process.memory for process in samples if process.renderer]
    return len(pages) > 1 and sum(pages) > bounds.agent_memory


def choose_kills(
    samples: Sequence[ProcessSample],
    excess_s: Mapping[int, float],
    owners: PageOwners,
    bounds: ResourceLimits,
) -> Sequence[Kill]:
    """Return the processes to kill, each with the reason.

    First pages over a limit, then the largest page of each agent over its memory limit. Only if
    there are none and Chromium as a whole is over its limit: the largest process.
    """
    kills: dict[int, Kill] = {}
    pages = sorted((p for p in samples if p.renderer), key=lambda p: p.memory, reverse=True)
    for page in pages:
        if page.memory > bounds.agent_memory:
            kills[page.pid] = Kill(page, _memory_words(bounds))
        elif excess_s.get(page.pid, 0.0) > bounds.work_s:
            kills[page.pid] = Kill(page, _work_words(bounds))
    for pids in owners.values():
        agent_pages = [page for page in pages if page.pid in pids]
        has_kill = any(page.pid in kills for page in agent_pages)
        if not has_kill and sum(page.memory for page in agent_pages) > bounds.agent_memory:
            kills[agent_pages[0].pid] = Kill(agent_pages[0], _memory_words(bounds))
    if not kills and sum(process.memory for process in samples) > bounds.memory:
        # What a page stores is in other processes and is freed with the page. If no page is left to
        # kill, the largest process is the one that keeps the memory.
        largest = max(samples, key=lambda process: process.memory)
        kills[largest.pid] = Kill(largest, _CROWDED)
    return tuple(kills.values())


def _memory_words(bounds: ResourceLimits) -> str:
    megabytes = bounds.agent_memory // 1_000_000
    return f"The page was killed: this agent's pages used more than {megabytes} MB of memory."


def _work_words(bounds: ResourceLimits) -> str:
    return (
        f"The page was killed: its scripts used more than {bounds.work_s:g} s of processor time "
        "without a pause."
    )


_CROWDED = "The page was killed: the browser as a whole exceeded its memory limit."


class KillReasons:
    """The most recent pages that were killed on purpose."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[tuple[float, str]] = deque(maxlen=MAX_REASONS)

    def record(self, why: str) -> None:
        """Record the reason of a kill that happens now."""
        self._last.append((self._clock.monotonic(), why))

    @property
    def has_recent(self) -> bool:
        """Whether a page was killed a moment ago and its crash was not reported yet."""
        return any(self._clock.monotonic() - at <= REASON_VALID_S for at, _ in self._last)

    def pop_recent(self) -> str | None:
        """Return the reason of a recent kill and remove it, or None."""
        while self._last:
            at, why = self._last.popleft()
            if self._clock.monotonic() - at <= REASON_VALID_S:
                return why
        return None
