"""Automatic steps of a lane's skill, taken before the model is called.

`skill_engine` decides; this module commits its decisions.
"""

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.lanes.scheduled_job import skill_input
from choir_agent.log.session_state import JobState
from choir_agent.settings import SettingsSource
from choir_agent.skills.skill_engine import (
    SkillEvent,
    TransitionCaller,
    TransitionRefused,
    due_skill_events,
    events_after_cancel,
    events_after_job_end,
    start_skill,
)
from choir_agent.skills.skill_registry import SkillRegistry


class SkillStepper:
    """Automatic events of skills: ends and errors that follow from a skill's own rules."""

    def __init__(self, arbiter: Arbiter, skills: SkillRegistry, settings: SettingsSource) -> None:
        self._arbiter = arbiter
        self._skills = skills
        self._settings = settings

    def settle(self, lane: str, turn_id: str) -> bool:
        """Commit due skill events; return whether there were any: then read the state again."""
        skill = self._arbiter.state.skill_of(lane)
        if skill is None:
            return False
        retries = self._settings.current().settings.budgets.skill_step_retries
        return self._commit(lane, due_skill_events(self._skills.of(skill), skill, retries, turn_id))

    def begin(self, job: JobState) -> str:
        """Commit the start of the skill in a job's briefing; return why it cannot start, or nothing."""
        name = job.briefing.skill
        if not name or job.steps or self._arbiter.state.skill_of(job.lane) is not None:
            return ""
        spec = self._skills.find(name)
        if spec is None:
            return f"There is no skill {name!r}; there are: {', '.join(self._skills.names())}."
        ruling = start_skill(
            spec, None, skill_input(job.briefing.task_spec), TransitionCaller(job.turn_id, "")
        )
        if isinstance(ruling, TransitionRefused):
            faults = ruling.error.get("faults")
            listed = "; ".join(map(str, faults)) if isinstance(faults, list) else ""
            return f"{ruling.error['message']} {listed}".strip()
        self._commit(job.lane, ruling.events)
        return ""

    def cancel(self, lane: str, turn_id: str) -> None:
        """Commit the effect of a cancelled turn on the lane's skill."""
        skill = self._arbiter.state.skill_of(lane)
        if skill is not None:
            self._commit(lane, events_after_cancel(self._skills.of(skill), skill, turn_id))

    def leave(self, lane: str, turn_id: str) -> None:
        """Commit the end of the lane's skill, because the lane ends."""
        skill = self._arbiter.state.skill_of(lane)
        if skill is not None:
            self._commit(lane, events_after_job_end(skill, turn_id))

    def _commit(self, lane: str, events: tuple[SkillEvent, ...]) -> bool:
        for event in events:
            # The lane continues at once, so these are sent with its next event.
            self._arbiter.commit(lane, event, more_follows=True)
        return bool(events)
