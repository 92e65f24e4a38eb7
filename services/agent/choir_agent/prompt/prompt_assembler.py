"""Assembly of prompts for the edge lane and for core jobs.

Every message and step is rendered once and cached, so that a call only joins bytes, even with a long history.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_state import SessionState
from choir_agent.prompt.event_messages import (
    ToolNames,
    head_messages,
    note_message,
    step_messages,
    system_message,
)
from choir_agent.prompt.history_format import HistoryFormat
from choir_agent.prompt.prompt_notes import (
    LanePrompt,
    StepTexts,
    changed_notes,
    current_notes,
    notes_of_step,
    summary_messages,
)
from choir_agent.prompt.static_prompts import StaticPrompts
from choir_agent.working_memory.lane_window import (
    HeadNotes,
    LaneWindow,
    WindowStep,
    WindowTurn,
)
from choir_agent.working_memory.token_estimator import file_size, prompt_size
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.lanes import EDGE_LANE, core_lane, is_edge
from choir_common.wire.events import LaneSummary, NoteKind

StepNotes = frozenset[tuple[int, NoteKind]]


@dataclass(frozen=True, slots=True)
class _Rendered:
    events: int
    history: HistoryFormat
    step_notes: StepNotes
    messages: list[bytes]


@dataclass(frozen=True, slots=True)
class _RenderedHead:
    head: CommittedEvent
    notes: HeadNotes
    shows_pictures: bool
    pdf_pages: int
    messages: list[bytes]

    def fits(self, turn: WindowTurn, history: HistoryFormat) -> bool:
        """Return whether the turn's head would be rendered alike; heads and notes are only replaced."""
        is_same = self.head is turn.head and self.notes is turn.notes
        files = (self.shows_pictures, self.pdf_pages)
        return is_same and files == (history.shows_pictures, history.pdf_pages)


class PromptAssembler:
    """Prompt builder: instructions and identity, reference summary, window, and notes that are new."""

    def __init__(self, memory: WorkingMemory, static: StaticPrompts, tool_names: ToolNames) -> None:
        self._memory = memory
        self.replace_static(static)
        self._tool_names = tool_names
        self._rendered: dict[str, dict[int, _Rendered]] = {}
        self._heads: dict[str, dict[int, _RenderedHead]] = {}
        self._summaries: dict[str, tuple[LaneSummary, list[bytes]]] = {}
        self._tools: dict[str, int] = {}
        self._firsts: dict[str, int] = {}
        self._formats: dict[str, HistoryFormat] = {}
        """The format of each lane's last prompt."""

    def replace_static(self, static: StaticPrompts) -> None:
        """Begin all further prompts with other instructions."""
        self._edge = system_message(static.edge)
        self._core = system_message(static.core)
        self._short_edge = system_message(static.short_edge)
        self._short_core = system_message(static.short_core)

    def edge(
        self,
        state: SessionState,
        tools: bytes,
        step: StepTexts = StepTexts(),  # noqa: B008 - frozen
        history: HistoryFormat = HistoryFormat(),  # noqa: B008 - frozen
        *,
        lane: str = EDGE_LANE,
        short: bool = False,
    ) -> LanePrompt:
        """Return the prompt of an edge lane; its open turn is the last one of the window.

        With `short`, the instructions are those for a small context window.
        """
        notes = current_notes(state.jobs_in(lane), step)
        first = self._short_edge if short else self._edge
        return self._assemble(lane, first, state, tools, notes, history)

    def core(
        self,
        state: SessionState,
        job_name: str,
        tools: bytes,
        step: StepTexts = StepTexts(),  # noqa: B008 - frozen
        history: HistoryFormat = HistoryFormat(),  # noqa: B008 - frozen
        *,
        short: bool = False,
    ) -> LanePrompt:
        """Return the prompt of an open core job; its briefing precedes its steps."""
        notes = current_notes((), step)
        first = self._short_core if short else self._core
        return self._assemble(core_lane(job_name), first, state, tools, notes, history)

    def fixed_size(self, state: SessionState, lane: str) -> int:
        """Return the bytes of the prompt's parts that are never compacted."""
        usual = self._edge if is_edge(lane) else self._core
        first = self._firsts.get(lane, len(usual))
        window = self._memory.window(lane)
        heads = self._head_size(window) if window is not None else 0
        summary = sum(map(len, self._summary(state, lane)))
        return first + summary + self._tools.get(lane, 0) + heads

    def _assemble(
        self,
        lane: str,
        first: bytes,
        state: SessionState,
        tools: bytes,
        notes: Mapping[NoteKind, str],
        history: HistoryFormat,
    ) -> LanePrompt:
        messages = [first, *self._summary(state, lane)]
        window = self._memory.window(lane)
        last = window.last_notes() if window is not None else {}
        if window is not None:
            messages += self._history(window, history, notes_of_step(notes, last))
        added = tuple(changed_notes(notes, last))
        prompt = LanePrompt((*messages, *map(note_message, added)), tools, notes=added)
        self._forget_ended()
        self._tools[lane], self._firsts[lane] = len(tools), len(first)
        self._formats[lane] = history
        self._memory.token_estimator.record_prompt_size(lane, prompt_size(prompt))
        return prompt

    def _forget_ended(self) -> None:
        for lane in [lane for lane in self._rendered if self._memory.window(lane) is None]:
            caches = (self._rendered, self._heads, self._summaries, self._tools, self._firsts)
            for cache in (*caches, self._formats):
                cache.pop(lane, None)

    def _summary(self, state: SessionState, lane: str) -> list[bytes]:
        summary = state.summary_of(lane)
        if summary is None:
            return []
        cached = self._summaries.get(lane)
        if cached is None or cached[0] is not summary:
            cached = (summary, summary_messages(summary))
            self._summaries[lane] = cached
        return cached[1]

    def _history(
        self, window: LaneWindow, history: HistoryFormat, step_notes: StepNotes
    ) -> list[bytes]:
        before, heads_before = self._rendered.get(window.lane, {}), self._heads.get(window.lane, {})
        rendered_steps: dict[int, _Rendered] = {}
        rendered_heads: dict[int, _RenderedHead] = {}
        messages: list[bytes] = []
        for turn in window.turns:
            head = _render_head(turn, heads_before.get(turn.head.rev), history)
            rendered_heads[turn.head.rev] = head
            messages += head.messages
            for step in turn.steps:
                cached = before.get(step.events[0].rev)
                rendered = self._step(window.lane, step, cached, history, step_notes)
                rendered_steps[step.events[0].rev] = rendered
                messages += rendered.messages
        self._rendered[window.lane], self._heads[window.lane] = rendered_steps, rendered_heads
        return messages

    def _step(
        self,
        lane: str,
        step: WindowStep,
        cached: _Rendered | None,
        history: HistoryFormat,
        step_notes: StepNotes,
    ) -> _Rendered:
        key = (len(step.events), history, step_notes)
        # A step only grows; the bytes that were sent do not change.
        if cached is not None and (cached.events, cached.history, cached.step_notes) == key:
            return cached
        messages = step_messages(step.events, lane, self._tool_names, history, step_notes)
        return _Rendered(*key, messages)

    def _head_size(self, window: LaneWindow) -> int:
        """Return the bytes of the newest message, with those that its pictures count as."""
        if not window.turns:
            return 0
        newest = window.turns[-1]
        last = self._formats.get(window.lane, HistoryFormat())
        messages = head_messages(
            newest.head,
            newest.notes,
            shows_pictures=last.shows_pictures,
            pdf_pages=last.pdf_pages,
        )
        return sum(map(len, messages)) + file_size(messages)


def _render_head(
    turn: WindowTurn, cached: _RenderedHead | None, history: HistoryFormat
) -> _RenderedHead:
    if cached is not None and cached.fits(turn, history):
        return cached
    messages = head_messages(
        turn.head,
        turn.notes,
        shows_pictures=history.shows_pictures,
        pdf_pages=history.pdf_pages,
    )
    return _RenderedHead(turn.head, turn.notes, history.shows_pictures, history.pdf_pages, messages)
