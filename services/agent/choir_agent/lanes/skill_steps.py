"""Automatic steps of a lane's skill, taken before the model is called.

`skill_engine` decides; this module commits its decisions.
"""

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.settings import SettingsSource
from choir_agent.skills.skill_engine import (
    SkillEvent,
    due_skill_events,
    events_after_cancel,
    events_after_job_end,
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
