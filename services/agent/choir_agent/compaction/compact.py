"""Compactor: folds a lane's old events into its reference summary while the lane continues.

Registered for all committed events; `run` is a task of the agent. A single event, `memory_compacted`,
changes summary and window together. A failure changes nothing and is retried when the window has grown.
After a few consecutive failures (`backoff`), lines are selected without the model (`select`). `shrink` is
for a prompt that is too long.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

import structlog

from choir_agent.budgets.reserve import BudgetSpent
from choir_agent.compaction.ask import Asker, correction
from choir_agent.compaction.backoff import ModelBackoff
from choir_agent.compaction.material import hashes_of, lines_of
from choir_agent.compaction.plan import Limits, Why, cut, is_bursting, limits_of
from choir_agent.compaction.select import select_summary
from choir_agent.log.committed import Committed
from choir_agent.log.state import EDGE, SessionState
from choir_agent.memory.delta import BadDelta, MemoryDelta, apply_delta, read_delta, room_for
from choir_agent.memory.window import LaneWindow
from choir_agent.memory.working import WorkingMemory
from choir_agent.models.model import ModelFailed, Thought
from choir_agent.prompt.assemble import Assembler
from choir_agent.settings import CurrentSettings
from choir_common.errors import RateLimited
from choir_common.wire.events import (
    CompactionRequested,
    CoreStopped,
    EventPayload,
    MemoryCompacted,
    ModelOutput,
    ReferenceSummary,
    ToolResultCommitted,
)

log = structlog.get_logger("choir.agent.compaction")

ATTEMPTS = 2
"""Model calls per compaction: after an invalid delta the model gets one chance to correct it."""
RETRY_SHARE = 8
"""After a failure the window must grow by this fraction (1/n of its maximum) before the next attempt."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """Prompt texts for compaction."""

    text: str
    edge: str
    core: str

    @classmethod
    def read(cls) -> "Instructions":
        """Read the texts from this package."""
        texts = files("choir_agent.compaction")
        edge, core = texts.joinpath("roles.md").read_text("utf-8").split("\n---\n")
        text = texts.joinpath("compact.md").read_text("utf-8")
        return cls(text.strip(), edge.strip(), core.strip())

    def of(self, lane: str, room: int) -> str:
        """Return the instructions for a lane; its summary may take `room` bytes."""
        role = self.edge if lane == EDGE else self.core
        return self.text.replace("{role}", role).replace("{room}", str(room))


class Committer(Protocol):
    """The part of the arbiter that compaction needs."""

    @property
    def state(self) -> SessionState: ...

    def commit(self, lane: str, payload: EventPayload, *, more_follows: bool = False) -> int: ...


@dataclass(frozen=True, slots=True)
class Job:
    """One compaction: the events to fold and the summary to update."""

    lane: str
    window: LaneWindow
    through_rev: int
    events: tuple[Committed, ...]
    before: ReferenceSummary


class Compactor:
    """Background compaction of all lanes' windows, at most one at a time for each lane."""

    def __init__(
        self,
        committer: Committer,
        memory: WorkingMemory,
        assembler: Assembler,
        asker: Asker,
        current: Callable[[], CurrentSettings],
    ) -> None:
        self._committer = committer
        self._memory = memory
        self._assembler = assembler
        self._asker = asker
        self._current = current
        self._instructions = Instructions.read()
        self._wake = asyncio.Event()
        self._touched: set[str] = set()
        self._asked: set[str] = set()
        self._busy: dict[str, asyncio.Lock] = {}
        self._retry_at: dict[str, int] = {}
        self._backoffs: dict[str, ModelBackoff] = {}

    def take_in(self, event: Committed) -> None:
        """Record events that may require a compaction."""
        match event.payload:
            case ModelOutput() | ToolResultCommitted():
                self._touched.add(event.lane)
            case CompactionRequested(target=target):
                self._asked.add(target)
            case MemoryCompacted(target=target, failed=""):
                self._retry_at.pop(target, None)
                return
            case CoreStopped():
                self._forget(event.lane)
                return
            case _:
                return
        self._wake.set()

    async def run(self) -> None:
        """Compact every lane that needs it, until cancelled."""
        # A restored log may end in the middle of a compaction.
        self._touched.update(self._memory.lanes())
        self._wake.set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                lanes, self._touched = self._touched | self._asked, set()
                for lane in sorted(lanes):
                    why = self._look_at(lane)
                    if why is not None:
                        # Acquire here and not in the task, so that the next look finds the lane busy.
                        await self._busy_of(lane).acquire()
                        tasks.create_task(self._in_background(lane, why))

    async def shrink(self, lane: str) -> bool:
        """Make a lane's window smaller now, without a model if necessary; return whether it is smaller."""
        window = self._memory.window(lane)
        if window is None:
            return False
        before = window.through_rev
        async with self._busy_of(lane):
            # The compaction that was in flight may have done it.
            if window.through_rev == before and not await self._compact(lane, "overflow"):
                self._let_go(lane, "overflow")
        return window.through_rev > before

    def _look_at(self, lane: str) -> Why | None:
        """Return why a lane must be compacted now, or None; events that cannot wait are dropped first."""
        window = self._memory.window(lane)
        if window is None:
            self._forget(lane)
            return None
        limits = self._limits(lane)
        in_flight = self._busy_of(lane).locked()
        failed = lane in self._retry_at
        if is_bursting(window, limits, in_flight=in_flight) and (failed or in_flight):
            self._let_go(lane, "full")
        if in_flight:
            return None
        why: Why = "asked" if lane in self._asked else "full"
        self._asked.discard(lane)
        waits = why == "full" and window.count < self._retry_at.get(lane, 0)
        return None if waits or cut(window, limits, why) is None else why

    async def _in_background(self, lane: str, why: Why) -> None:
        try:
            await self._compact(lane, why)
        except Exception:
            # Outermost frame of a compaction: a bug in it must not end the session.
            log.exception("a compaction broke", lane=lane)
            self._wait_for_growth(lane)
        finally:
            self._busy_of(lane).release()
            # Events that arrived in the meantime were not examined.
            self._touched.add(lane)
            self._wake.set()

    async def _compact(self, lane: str, why: Why) -> bool:
        """Fold a lane's old events; return whether that succeeded."""
        job = self._plan(lane, why)
        if job is None:
            return False
        backoff = self._backoffs.setdefault(self._asker.origin(lane), ModelBackoff())
        # A requested compaction always tries the model.
        if why != "asked" and backoff.take_rest():
            self._select(job)
            return True
        try:
            folded = await self._fold(job)
        except BudgetSpent as error:
            # No model call was made, so this is no failure of the model.
            log.warning("no compaction", lane=lane, reason=error.message)
            self._wait_for_growth(lane)
            return False
        except (RateLimited, ModelFailed) as error:
            log.warning("no compaction", lane=lane, reason=error.message)
            folded = False
        if folded:
            backoff.succeeded()
            return True
        backoff.failed()
        if backoff.gave_up:
            self._select(job)
            return True
        self._wait_for_growth(lane, backoff.growth_factor())
        return False

    def _wait_for_growth(self, lane: str, factor: int = 1) -> None:
        window = self._memory.window(lane)
        if window is not None:
            grown = factor * max(1, self._current().settings.event_window // RETRY_SHARE)
            self._retry_at[lane] = window.count + grown

    def _plan(self, lane: str, why: Why) -> Job | None:
        window = self._memory.window(lane)
        through = cut(window, self._limits(lane), why) if window is not None else None
        if window is None or through is None:
            return None
        summary = self._committer.state.summary(lane)
        before = summary.summary if summary is not None else ReferenceSummary()
        return Job(lane, window, through, tuple(window.events(through)), before)

    async def _fold(self, job: Job) -> bool:
        context = self._asker.context_window(job.lane)
        room = room_for(context)
        instructions = self._instructions.of(job.lane, room)
        # Outputs may be long; do not block the event loop.
        lines = await asyncio.to_thread(lines_of, job.events, job.lane, context)
        before = job.before.model_dump_json()
        material = f"The summary so far:\n{before}\n\nThe events:\n{lines}"
        further: tuple[bytes, ...] = ()
        for _ in range(ATTEMPTS):
            async with self._asker.ask(job.lane, instructions, material, *further) as thought:
                fault = self._commit(job, thought, room)
            if not fault:
                return True
            further = correction(thought.text, fault)
        return False

    def _commit(self, job: Job, thought: Thought, room: int) -> str:
        """Commit the model's delta; return the fault of an invalid one, or an empty text."""
        if self._memory.window(job.lane) is not job.window:
            # The event records the tokens that the call used; the summary stays as it was.
            ended = "the job had ended"
            self._append(job.lane, job.through_rev, job.before, thought=thought, failed=ended)
            return ""
        try:
            delta = read_delta(thought.text)
            after = apply_delta(job.before, delta, hashes_of(job.events), room)
        except BadDelta as error:
            log.warning("a memory delta is out of order", lane=job.lane, reason=error.message)
            unchanged = job.window.through_rev
            self._append(job.lane, unchanged, job.before, thought=thought, failed=error.message)
            return error.message
        # The window may have been reduced further during the call.
        through = max(job.through_rev, job.window.through_rev)
        self._append(job.lane, through, after, delta, thought)
        log.info("compacted", lane=job.lane, through_rev=through, events=len(job.events))
        return ""

    def _let_go(self, lane: str, why: Why) -> None:
        """Fold the oldest events now, without a model."""
        job = self._plan(lane, why)
        if job is not None:
            self._select(job)

    def _select(self, job: Job) -> None:
        """Fold events without a model: the summary gets selected lines; the log stays complete."""
        if self._memory.window(job.lane) is not job.window:
            return  # the job has ended
        room = room_for(self._asker.context_window(job.lane))
        summary = select_summary(job.before, job.events, room)
        through = max(job.through_rev, job.window.through_rev)
        log.warning("events folded without a model", lane=job.lane, through_rev=through)
        self._append(job.lane, through, summary)

    def _append(
        self,
        lane: str,
        through_rev: int,
        summary: ReferenceSummary,
        delta: MemoryDelta | None = None,
        thought: Thought | None = None,
        failed: str = "",
    ) -> None:
        if self._committer.state.stopped:
            return  # no event may follow the session's end
        compacted = MemoryCompacted(
            target=lane,
            through_rev=through_rev,
            delta=delta.as_json() if delta is not None else {},
            summary=summary,
            model=thought.model if thought is not None else "",
            prompt_tokens=thought.prompt_tokens if thought is not None else 0,
            completion_tokens=thought.completion_tokens if thought is not None else 0,
            failed=failed,
        )
        self._committer.commit(lane, compacted)

    def _limits(self, lane: str) -> Limits:
        settings = self._current().settings
        return limits_of(
            settings.event_window,
            settings.compaction_threshold,
            self._memory.meter.size_of(lane, self._asker.context_window(lane)),
            self._assembler.fixed_size(self._committer.state, lane),
        )

    def _busy_of(self, lane: str) -> asyncio.Lock:
        return self._busy.setdefault(lane, asyncio.Lock())

    def _forget(self, lane: str) -> None:
        self._asked.discard(lane)
        self._retry_at.pop(lane, None)
        if lane in self._busy and not self._busy[lane].locked():
            del self._busy[lane]
