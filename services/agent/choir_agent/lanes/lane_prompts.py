"""Prompts of the lanes: chooses the visible tools and the note on the current skill step.

The edge lane's tools do not change while jobs run, so that the prompt's prefix stays cacheable; the arbiter's
policy refuses what is not allowed.
"""

from choir_agent.log.session_state import JobState, SessionState, SessionStateSource, TurnState
from choir_agent.models.lane_models import model_for_lane
from choir_agent.prompt.history_format import HistoryFormat
from choir_agent.prompt.prompt_assembler import PromptAssembler
from choir_agent.prompt.prompt_notes import LanePrompt, StepTexts
from choir_agent.settings import SettingsSource
from choir_agent.skills.current_step import (
    allowed_tools,
    render_limit,
    render_step_input,
    render_step_note,
)
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.skills.skill_spec import START_TOOL, TRANSITION_TOOL
from choir_agent.tools.availability import unavailable_tools
from choir_agent.tools.conversation_argument import Destinations, find_destinations
from choir_agent.tools.harness_argument import find_harnesses
from choir_agent.tools.model_view import model_name
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.short_tools import tools_to_hide
from choir_common.lanes import CORE_LANE_PREFIX, is_edge
from choir_common.wire.config import AgentSettings


class LanePrompts:
    """Prompt builder for all lanes."""

    def __init__(
        self,
        *,
        session: SessionStateSource,
        assembler: PromptAssembler,
        registry: ToolRegistry,
        skills: SkillRegistry,
        settings: SettingsSource,
    ) -> None:
        self._session = session
        self._assembler = assembler
        self._registry = registry
        self._skills = skills
        self._settings = settings

    def prompt_for(self, work: TurnState | JobState, history: HistoryFormat) -> LanePrompt:
        """Return the prompt of an edge lane's turn, or of an open core job."""
        state, job = self._session.state, work if isinstance(work, JobState) else None
        settings = self._settings.current().settings
        short = model_for_lane(settings, work.lane).has_small_context
        others = find_destinations(settings.conversations, work.dm)
        tools = self._tools(work.lane, self._allowed(state, work.lane, job), settings, others)
        step = self._step_texts(state, work.lane)
        if job is None:
            return self._assembler.edge(state, tools, step, history, lane=work.lane, short=short)
        return self._assembler.core(state, job.name, tools, step, history, short=short)

    def _tools(
        self,
        lane: str,
        allowed: frozenset[str] | None,
        settings: AgentSettings,
        others: Destinations,
    ) -> bytes:
        hidden = unavailable_tools(self._registry.manifests(), settings)
        harnesses = find_harnesses(settings.harnesses)
        if self._session.state.skill_of(lane) is None:
            hidden |= self._unusable_skill_tools(hidden)
        if not model_for_lane(settings, lane).has_small_context:
            return self._registry.view(
                lane,
                allowed,
                hidden,
                conversations=others,
                agents=settings.may_ask,
                harnesses=harnesses,
            )
        # A skill's step and a briefing name few tools, and the work needs them.
        if allowed is None:
            jobs_have_room = (
                is_edge(lane) and not model_for_lane(settings, CORE_LANE_PREFIX).has_small_context
            )
            hidden |= tools_to_hide(self._registry.canonical_names, with_jobs=jobs_have_room)
        return self._registry.view(
            lane,
            allowed,
            hidden,
            short=True,
            conversations=others,
            agents=settings.may_ask,
            harnesses=harnesses,
        )

    def _unusable_skill_tools(self, hidden: frozenset[str]) -> frozenset[str]:
        """Return the skill tools that a lane outside of skills cannot use."""
        can_start = bool(self._skills.summaries(hidden))
        return frozenset((TRANSITION_TOOL,) if can_start else (START_TOOL, TRANSITION_TOOL))

    def _allowed(
        self, state: SessionState, lane: str, job: JobState | None
    ) -> frozenset[str] | None:
        briefed = job.briefing.tool_constraints.allowed_tools if job is not None else ()
        skill = state.skill_of(lane)
        spec = None if skill is None else self._skills.of(skill)
        if skill is None or spec is None:
            return frozenset(briefed) if briefed else None
        of_step = allowed_tools(spec, skill)
        return of_step & frozenset(briefed) if briefed else of_step

    def _step_texts(self, state: SessionState, lane: str) -> StepTexts:
        """Return what the prompt says about the current step of the lane's skill."""
        skill = state.skill_of(lane)
        spec = None if skill is None else self._skills.of(skill)
        if skill is None or spec is None:
            return StepTexts()
        return StepTexts(
            note=render_step_note(spec, skill, model_name),
            limit=render_limit(spec, skill),
            input=render_step_input(skill),
        )
