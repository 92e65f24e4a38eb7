"""Policy: whether a lane may use a tool now, decided from the folded state alone. Pure.

It is asked when a call is proposed, and again just before it is committed, because the state may have changed
while the call waited for locks. A refusal lists the allowed tools. See docs/design/arbiter.md.
"""

from dataclasses import dataclass

from choir_agent.budgets.limits import tool_call_refusal
from choir_agent.locks.claim import EDGE_EFFECTS, Lockset
from choir_agent.log.session_state import JobState, SessionState
from choir_agent.skills.current_step import tool_refusal
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.model_view import model_name
from choir_agent.tools.registry import ToolRegistry
from choir_common.lanes import is_edge
from choir_common.wire.config import Budgets
from choir_common.wire.events import HeldLock
from choir_common.wire.model import JsonObject

_HARMLESS = ("none", "read")


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """The input of a policy decision."""

    state: SessionState
    budgets: Budgets
    lane: str
    turn_id: str
    hidden: frozenset[str] = frozenset()
    """Tools that cannot work at present; refusals do not list them."""


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """The rules of this agent."""

    registry: ToolRegistry
    skills: SkillRegistry

    def refusal(self, tool: ToolManifest, now: PolicyContext) -> JsonObject | None:
        """Return an error if the lane may not use the tool now, or None."""
        for refused in (
            self._lane_forbids(tool, now),
            self._jobs_forbid(tool, now),
            self._briefing_forbids(tool, now),
            self._skill_forbids(tool, now),
            tool_call_refusal(now.state, now.budgets),
        ):
            if refused is not None:
                return refused
        return None

    def extra_locks(self, tool: ToolManifest, lane: str) -> Lockset:
        """Return the locks that a call needs in addition to those of its manifest."""
        if not is_edge(lane) or not is_restricted_during_jobs(tool):
            return ()
        return (HeldLock(resource=EDGE_EFFECTS, mode="S"),)

    def _lane_forbids(self, tool: ToolManifest, now: PolicyContext) -> JsonObject | None:
        if self.registry.is_offered(tool.name, now.lane) or _is_own_call(tool, now):
            return None
        whose = "core jobs" if is_edge(now.lane) else "the edge lane"
        message = f"Only {whose} may use {model_name(tool.name)}."
        return self._refused("wrong_lane", message, now)

    def _jobs_forbid(self, tool: ToolManifest, now: PolicyContext) -> JsonObject | None:
        if not is_edge(now.lane) or not now.state.jobs or not is_restricted_during_jobs(tool):
            return None
        names = [job.name for job in now.state.jobs_in(now.lane)]
        whose = ", ".join(names) or "of another conversation"
        message = (
            f"While core jobs run ({whose}) you may only read. Let a core job do it: inject "
            "it into one of them, or spawn another; or wait for their reports, or cancel them."
        )
        return {**self._refused("edge_restricted", message, now), "running": [*names]}

    def _briefing_forbids(self, tool: ToolManifest, now: PolicyContext) -> JsonObject | None:
        job = now.state.find_work(now.turn_id)
        if not isinstance(job, JobState) or _is_in_briefing(job, tool):
            return None
        message = f"This job's briefing does not allow {model_name(tool.name)}."
        return self._refused("not_in_briefing", message, now)

    def _skill_forbids(self, tool: ToolManifest, now: PolicyContext) -> JsonObject | None:
        skill = now.state.skill_of(now.lane)
        spec = None if skill is None else self.skills.of(skill)
        if skill is None or spec is None:
            return None
        return tool_refusal(spec, skill, tool.name, tool.runtime.in_skills, model_name)

    def _refused(self, code: str, message: str, now: PolicyContext) -> JsonObject:
        job = now.state.find_work(now.turn_id)
        restricted = is_edge(now.lane) and bool(now.state.jobs)
        allowed = [
            model_name(manifest.name)
            for manifest in self.registry.manifests()
            if manifest.name not in now.hidden
            and self.registry.is_offered(manifest.name, now.lane)
            and not (restricted and is_restricted_during_jobs(manifest))
            and (not isinstance(job, JobState) or _is_in_briefing(job, manifest))
        ]
        return {"code": code, "message": message, "allowed_tools": [*allowed]}


def is_restricted_during_jobs(tool: ToolManifest) -> bool:
    """Return whether the edge lane may not use the tool while a core job runs."""
    return tool.runtime.side_effect not in _HARMLESS and not tool.runtime.during_jobs


def _is_own_call(tool: ToolManifest, now: PolicyContext) -> bool:
    """Return whether Choir makes the call for a harness, in a job that the harness does."""
    job = now.state.find_work(now.turn_id)
    is_job = isinstance(job, JobState) and bool(tool.runtime.harness)
    return is_job and isinstance(job, JobState) and job.briefing.harness == tool.runtime.harness


def _is_in_briefing(job: JobState, tool: ToolManifest) -> bool:
    allowed = job.briefing.tool_constraints.allowed_tools
    is_named = tool.name in allowed or tool.runtime.in_skills or bool(tool.runtime.harness)
    return not allowed or is_named
