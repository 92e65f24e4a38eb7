"""Prompts of the lanes: chooses the visible tools and the note on the current skill step.

Called by `think`; the prompt is built in `prompt/assemble`. The edge lane's tools do not change while jobs
run, so that the prompt's prefix stays cacheable; the arbiter's policy refuses what is not allowed.
"""

from collections.abc import Callable

from choir_agent.log.state import EDGE, JobState, SessionState
from choir_agent.prompt.assemble import Assembler, Prompt
from choir_agent.prompt.history import HistoryFormat
from choir_agent.settings import CurrentSettings
from choir_agent.skills.allow import allowed_tools
from choir_agent.skills.note import handed_on, step_note
from choir_agent.skills.registry import Skills
from choir_agent.tools.availability import not_offered
from choir_agent.tools.model_view import model_name_of
from choir_agent.tools.registry import Registry


class LanePrompts:
    """Prompt builder for all lanes."""

    def __init__(
        self,
        state: Callable[[], SessionState],
        assembler: Assembler,
        registry: Registry,
        skills: Skills,
        current: Callable[[], CurrentSettings],
    ) -> None:
        self._state = state
        self._assembler = assembler
        self._registry = registry
        self._skills = skills
        self._current = current

    def edge(self, history: HistoryFormat) -> Prompt:
        """Return the edge lane's prompt."""
        state = self._state()
        tools = self._tools(EDGE, self._allowed(state, EDGE, None))
        note, handed = self._note(state, EDGE)
        return self._assembler.edge(state, tools, note, history, handed)

    def core(self, job: JobState, history: HistoryFormat) -> Prompt:
        """Return the prompt of an open core job."""
        state = self._state()
        tools = self._tools(job.lane, self._allowed(state, job.lane, job))
        note, handed = self._note(state, job.lane)
        return self._assembler.core(state, job.name, tools, note, history, handed)

    def _tools(self, lane: str, allowed: frozenset[str] | None) -> bytes:
        hidden = not_offered(self._registry.manifests(), self._current().settings)
        return self._registry.view(lane, allowed, hidden)

    def _allowed(
        self, state: SessionState, lane: str, job: JobState | None
    ) -> frozenset[str] | None:
        briefed = job.briefing.tool_constraints.allowed_tools if job is not None else ()
        skill = state.skill(lane)
        spec = None if skill is None else self._skills.of(skill)
        if skill is None or spec is None:
            return frozenset(briefed) if briefed else None
        of_step = allowed_tools(spec, skill)
        return of_step & frozenset(briefed) if briefed else of_step

    def _note(self, state: SessionState, lane: str) -> tuple[str, str]:
        """Return the note on the current step of the lane's skill, and the step's input as JSON."""
        skill = state.skill(lane)
        spec = None if skill is None else self._skills.of(skill)
        if skill is None or spec is None:
            return "", ""
        return step_note(spec, skill, model_name_of), handed_on(skill)
