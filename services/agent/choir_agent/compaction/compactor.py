"""Compactor: folds a lane's old events into its reference summary while the lane continues.

A single event, `memory_compacted`, changes summary and window together. A failure changes nothing and is
retried when the window has grown. After a few consecutive failures (`ModelBackoff`), lines are selected
without the model. `shrink` is for a prompt that is too long.
"""

import asyncio
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol

import structlog

from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.compaction.compaction_model import CompactionModel, ModelBackoff, correction
from choir_agent.compaction.compaction_plan import (
    CompactionReason,
    WindowLimits,
    exceeds_hard_limit,
    fold_through,
    window_limits,
)
from choir_agent.compaction.event_lines import event_hashes, render_event_lines, select_summary
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_state import SessionState
from choir_agent.models.model_wrappers import MeteredCompletion
from choir_agent.prompt.prompt_assembler import PromptAssembler
from choir_agent.settings import SettingsSource
from choir_agent.working_memory.lane_window import LaneWindow
from choir_agent.working_memory.memory_delta import (
    InvalidDelta,
    MemoryDelta,
    apply_delta,
    max_summary_bytes,
    parse_delta,
)
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.errors import RateLimited
from choir_common.lanes import is_edge
from choir_common.wire.events import (
    CompactionRequested,
    CoreStopped,
    EventPayload,
    MemoryCompacted,
    ModelOutput,
    ReferenceSummary,
    ToolResultCommitted,
)
from choir_models.model import ModelFailed

log = structlog.get_logger("choir.agent.compaction")

ATTEMPTS = 2
"""Model calls per compaction: after an invalid delta the model gets one chance to correct it."""
RETRY_GROWTH_DIVISOR = 8
"""After a failure the window must grow by this fraction (1/n of its maximum) before the next attempt."""


@dataclass(frozen=True, slots=True)
class CompactionInstructions:
    """Prompt texts for compaction."""

    text: str
    edge: str
    core: str

    @classmethod
    def read(cls) -> "CompactionInstructions":
        """Read the texts from this package."""
        texts = files("choir_agent.compaction")
        edge, core = texts.joinpath("roles.md").read_text("utf-8").split("\n---\n")
        text = texts.joinpath("compact.md").read_text("utf-8")
        return cls(text.strip(), edge.strip(), core.strip())

    def for_lane(self, lane: str, room: int) -> str:
        """Return the instructions for a lane; its summary may take `room` bytes."""
        role = self.edge if is_edge(lane) else self.core
        return self.text.replace("{role}", role).replace("{room}", str(room))


class EventCommitter(Protocol):
    """The part of the arbiter that compaction needs."""

    @property
    def state(self) -> SessionState: ...

    def commit(self, lane: str, payload: EventPayload, *, more_follows: bool = False) -> int: ...


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """One compaction: the events to fold and the summary to update."""

    lane: str
    window: LaneWindow
    through_rev: int
    events: tuple[CommittedEvent, ...]
    before: ReferenceSummary


class Compactor:
    """Background compaction of all lanes' windows, at most one at a time for each lane."""

    def __init__(
        self,
        *,
        committer: EventCommitter,
        memory: WorkingMemory,
        assembler: PromptAssembler,
        model: CompactionModel,
        settings: SettingsSource,
    ) -> None:
        self._committer = committer
        self._memory = memory
        self._assembler = assembler
        self._model = model
        self._settings = settings
        self._instructions = CompactionInstructions.read()
        self._wake = asyncio.Event()
        self._changed_lanes: set[str] = set()
        self._requested: set[str] = set()
        self._busy: dict[str, asyncio.Lock] = {}
        self._retry_at: dict[str, int] = {}
        self._backoffs: dict[str, ModelBackoff] = {}

    def on_event(self, event: CommittedEvent) -> None:
        """Record events that may require a compaction."""
        match event.payload:
            case ModelOutput() | ToolResultCommitted():
                self._changed_lanes.add(event.lane)
            case CompactionRequested(target=target):
                self._requested.add(target)
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
        self._changed_lanes.update(self._memory.lanes())
        self._wake.set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wake.wait()
                self._wake.clear()
                lanes, self._changed_lanes = self._changed_lanes | self._requested, set()
                for lane in sorted(lanes):
                    why = self._reason_to_compact(lane)
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
                self._fold_without_model(lane, "overflow")
        return window.through_rev > before

    def _reason_to_compact(self, lane: str) -> CompactionReason | None:
        """Return why a lane must be compacted now, or None; events that cannot wait are dropped first."""
        window = self._memory.window(lane)
        if window is None:
            self._forget(lane)
            return None
        job = next((job for job in self._committer.state.jobs if job.lane == lane), None)
        if job is not None and job.briefing.harness:
            return None  # no prompt is made of it
        limits = self._limits(lane)
        in_flight = self._busy_of(lane).locked()
        failed = lane in self._retry_at
        if exceeds_hard_limit(window, limits, in_flight=in_flight) and (failed or in_flight):
            self._fold_without_model(lane, "full")
        if in_flight:
            return None
        why: CompactionReason = "asked" if lane in self._requested else "full"
        self._requested.discard(lane)
        waits = why == "full" and window.count < self._retry_at.get(lane, 0)
        return None if waits or fold_through(window, limits, why) is None else why

    async def _in_background(self, lane: str, why: CompactionReason) -> None:
        try:
            await self._compact(lane, why)
        except Exception:
            # Outermost frame of a compaction: a bug in it must not end the session.
            log.exception("compaction failed with an internal error", lane=lane)
            self._wait_for_growth(lane)
        finally:
            self._busy_of(lane).release()
            # Events that arrived in the meantime were not examined.
            self._changed_lanes.add(lane)
            self._wake.set()

    async def _compact(self, lane: str, why: CompactionReason) -> bool:
        """Fold a lane's old events; return whether that succeeded."""
        job = self._plan(lane, why)
        if job is None:
            return False
        backoff = self._backoffs.setdefault(self._model.origin(lane), ModelBackoff())
        # A requested compaction always tries the model.
        if why != "asked" and backoff.consume_skip():
            self._select(job)
            return True
        try:
            folded = await self._fold(job)
        except BudgetExceeded as error:
            # No model call was made, so this is no failure of the model.
            log.warning("compaction failed", lane=lane, error=error.message)
            self._wait_for_growth(lane)
            return False
        except (RateLimited, ModelFailed) as error:
            log.warning("compaction failed", lane=lane, error=error.message)
            folded = False
        if folded:
            backoff.record_success()
            return True
        backoff.record_failure()
        if backoff.is_exhausted:
            self._select(job)
            return True
        self._wait_for_growth(lane, backoff.growth_factor())
        return False

    def _wait_for_growth(self, lane: str, factor: int = 1) -> None:
        window = self._memory.window(lane)
        if window is not None:
            grown = factor * max(
                1, self._settings.current().settings.event_window // RETRY_GROWTH_DIVISOR
            )
            self._retry_at[lane] = window.count + grown

    def _plan(self, lane: str, why: CompactionReason) -> CompactionTask | None:
        window = self._memory.window(lane)
        through = fold_through(window, self._limits(lane), why) if window is not None else None
        if window is None or through is None:
            return None
        summary = self._committer.state.summary_of(lane)
        before = summary.summary if summary is not None else ReferenceSummary()
        return CompactionTask(lane, window, through, tuple(window.events(through)), before)

    async def _fold(self, job: CompactionTask) -> bool:
        context = self._model.context_window(job.lane)
        room = max_summary_bytes(context)
        instructions = self._instructions.for_lane(job.lane, room)
        # Outputs may be long; do not block the event loop.
        lines = await asyncio.to_thread(
            render_event_lines, job.events, job.lane, context, notes=job.window.head_notes
        )
        before = job.before.model_dump_json()
        material = f"The summary so far:\n{before}\n\nThe events:\n{lines}"
        further: tuple[bytes, ...] = ()
        for _ in range(ATTEMPTS):
            async with self._model.ask(job.lane, instructions, material, *further) as completion:
                fault = self._commit(job, completion, room)
            if not fault:
                return True
            further = correction(completion.text, fault)
        return False

    def _commit(self, job: CompactionTask, completion: MeteredCompletion, room: int) -> str:
        """Commit the model's delta; return the fault of an invalid one, or an empty text."""
        if self._memory.window(job.lane) is not job.window:
            # The event records the tokens that the call used; the summary stays as it was.
            reason = "the job had ended"
            self._append(
                job.lane, job.through_rev, job.before, completion=completion, failed=reason
            )
            return ""
        try:
            delta = parse_delta(completion.text)
            after = apply_delta(job.before, delta, event_hashes(job.events), room)
        except InvalidDelta as error:
            log.warning("invalid memory delta", lane=job.lane, error=error.message)
            unchanged = job.window.through_rev
            self._append(
                job.lane, unchanged, job.before, completion=completion, failed=error.message
            )
            return error.message
        # The window may have been reduced further during the call.
        through = max(job.through_rev, job.window.through_rev)
        self._append(job.lane, through, after, delta, completion)
        log.info("memory compacted", lane=job.lane, through_rev=through, events=len(job.events))
        return ""

    def _fold_without_model(self, lane: str, why: CompactionReason) -> None:
        """Fold the oldest events now, without a model."""
        job = self._plan(lane, why)
        if job is not None:
            self._select(job)

    def _select(self, job: CompactionTask) -> None:
        """Fold events without a model: the summary gets selected lines; the log stays complete."""
        if self._memory.window(job.lane) is not job.window:
            return  # the job has ended
        room = max_summary_bytes(self._model.context_window(job.lane))
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
        completion: MeteredCompletion | None = None,
        failed: str = "",
    ) -> None:
        if self._committer.state.stopped:
            return  # no event may follow the session's end
        compacted = MemoryCompacted(
            target=lane,
            through_rev=through_rev,
            delta=delta.as_json() if delta is not None else {},
            summary=summary,
            model=completion.model if completion is not None else "",
            prompt_tokens=completion.prompt_tokens if completion is not None else 0,
            completion_tokens=completion.completion_tokens if completion is not None else 0,
            failed=failed,
            taint=self._committer.state.taint.lane(lane),
            cached_tokens=completion.cached_tokens if completion is not None else 0,
            usage=completion.usage if completion is not None else None,
        )
        self._committer.commit(lane, compacted)

    def _limits(self, lane: str) -> WindowLimits:
        settings = self._settings.current().settings
        return window_limits(
            settings.event_window,
            settings.compaction_threshold,
            self._memory.token_estimator.size_of(lane, self._model.prompt_tokens(lane)),
            self._assembler.fixed_size(self._committer.state, lane),
        )

    def _busy_of(self, lane: str) -> asyncio.Lock:
        return self._busy.setdefault(lane, asyncio.Lock())

    def _forget(self, lane: str) -> None:
        self._requested.discard(lane)
        self._retry_at.pop(lane, None)
        if lane in self._busy and not self._busy[lane].locked():
            del self._busy[lane]
