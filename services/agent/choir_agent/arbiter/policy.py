"""Policy: whether a lane may use a tool now, decided from the folded state alone. Pure.

Called by `arbiter` when a call is proposed, and again just before it is committed, because the state may
have changed while the call waited for locks. A refusal lists the allowed tools. See docs/design/arbiter.md.
"""

from dataclasses import dataclass

from choir_agent.budgets.limits import calls_fault
from choir_agent.locks.claim import Lockset
from choir_agent.locks.keys import EDGE_EFFECTS
from choir_agent.log.state import EDGE, JobState, SessionState
from choir_agent.skills.allow import refusal
from choir_agent.skills.registry import Skills
from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.model_view import model_name_of
from choir_agent.tools.registry import Registry
from choir_common.wire.config import Budgets
from choir_common.wire.events import LockHold
from choir_common.wire.json import JsonObject

_HARMLESS = ("none", "read")


@dataclass(frozen=True, slots=True)
class Moment:
    """The input of a policy decision."""

    state: SessionState
    budgets: Budgets
    lane: str
    turn_id: str
    hidden: frozenset[str] = frozenset()
    """Tools that cannot work at present; refusals do not list them."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of this agent."""

    registry: Registry
    skills: Skills

    def forbids(self, tool: ToolManifest, now: Moment) -> JsonObject | None:
        """Return an error if the lane may not use the tool now, or None."""
        for refused in (
            self._lane_forbids(tool, now),
            self._jobs_forbid(tool, now),
            self._briefing_forbids(tool, now),
            self._skill_forbids(tool, now),
            calls_fault(now.state, now.budgets),
        ):
            if refused is not None:
                return refused
        return None

    def locks_beside(self, tool: ToolManifest, lane: str) -> Lockset:
        """Return the locks that a call needs in addition to those of its manifest."""
        if lane != EDGE or not restricted(tool):
            return ()
        return (LockHold(resource=EDGE_EFFECTS, mode="S"),)

    def _lane_forbids(self, tool: ToolManifest, now: Moment) -> JsonObject | None:
        if self.registry.offers(tool.name, now.lane):
            return None
        whose = "core jobs" if now.lane == EDGE else "the edge lane"
        message = f"Only {whose} may use {model_name_of(tool.name)}."
        return self._refused("wrong_lane", message, now)

    def _jobs_forbid(self, tool: ToolManifest, now: Moment) -> JsonObject | None:
        if now.lane != EDGE or not now.state.jobs or not restricted(tool):
            return None
        names = [job.name for job in now.state.jobs]
        message = (
            f"While core jobs run ({', '.join(names)}) you may only read. Let a core job do it: inject "
            "it into one of them, or spawn another; or wait for their reports, or cancel them."
        )
        return {**self._refused("edge_restricted", message, now), "running": [*names]}

    def _briefing_forbids(self, tool: ToolManifest, now: Moment) -> JsonObject | None:
        job = now.state.work(now.turn_id)
        if not isinstance(job, JobState) or _briefed(job, tool):
            return None
        message = f"This job's briefing does not allow {model_name_of(tool.name)}."
        return self._refused("not_in_briefing", message, now)

    def _skill_forbids(self, tool: ToolManifest, now: Moment) -> JsonObject | None:
        skill = now.state.skill(now.lane)
        spec = None if skill is None else self.skills.of(skill)
        if skill is None or spec is None:
            return None
        return refusal(spec, skill, tool.name, tool.runtime.in_skills, model_name_of)

    def _refused(self, code: str, message: str, now: Moment) -> JsonObject:
        job = now.state.work(now.turn_id)
        held = now.lane == EDGE and bool(now.state.jobs)
        allowed = [
            model_name_of(manifest.name)
            for manifest in self.registry.manifests()
            if manifest.name not in now.hidden
            and self.registry.offers(manifest.name, now.lane)
            and not (held and restricted(manifest))
            and (not isinstance(job, JobState) or _briefed(job, manifest))
        ]
        return {"code": code, "message": message, "allowed_tools": [*allowed]}


def restricted(tool: ToolManifest) -> bool:
    """Return whether the edge lane may not use the tool while a core job runs."""
    return tool.runtime.side_effect not in _HARMLESS and not tool.runtime.during_jobs


def _briefed(job: JobState, tool: ToolManifest) -> bool:
    allowed = job.briefing.tool_constraints.allowed_tools
    return not allowed or tool.name in allowed or tool.runtime.in_skills
