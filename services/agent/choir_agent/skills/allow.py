"""Say whether a tool is allowed in a skill's present state, and what is: pure (spec 10.2).

Called by the arbiter for each proposed call of a lane that is in a skill, and by `engine`.
"""

from collections.abc import Callable

from choir_agent.log.state import SkillState
from choir_agent.skills.spec import CANCEL, SkillSpec, StateSpec
from choir_common.wire.json import JsonObject

Shown = Callable[[str], str]
"""From a tool's canonical name to the one the model knows."""


def refusal(
    spec: SkillSpec, skill: SkillState, tool: str, in_skills: bool, shown: Shown = str
) -> JsonObject | None:
    """Return why a tool may not be used now, none if it may.

    `in_skills` is the manifest's word that the tool belongs to every state: those that move the skill.
    """
    state = present(spec, skill)
    if in_skills or tool in state.allowed_tools:
        return None
    reason = f"The tool {shown(tool)!r} is not allowed in the state {skill.state!r}."
    return refused(spec, skill, "skill_tool_forbidden", reason, shown)


def allowed_tools(spec: SkillSpec, skill: SkillState) -> frozenset[str]:
    """Return the canonical names of the tools the present state allows."""
    return frozenset(present(spec, skill).allowed_tools)


def refused(spec: SkillSpec, skill: SkillState, code: str, reason: str, shown: Shown) -> JsonObject:
    """Return an error from which the model can tell what it may do instead."""
    return {
        "code": code,
        "message": reason,
        "skill": skill.skill,
        "state": skill.state,
        "allowed_tools": [shown(name) for name in present(spec, skill).allowed_tools],
        "valid_transitions": [{"on": on, "to": to} for on, to in ways_on(spec, skill)],
    }


def ways_on(spec: SkillSpec, skill: SkillState) -> list[tuple[str, str | None]]:
    """Return the events the present state takes, and where each leads; none is out of the skill."""
    state = present(spec, skill)
    ways: list[tuple[str, str | None]] = [(known.on, known.to) for known in state.transitions]
    if spec.interruptible and not state.terminal and state.to(CANCEL) is None:
        ways.append((CANCEL, None))
    return ways


def present(spec: SkillSpec, skill: SkillState) -> StateSpec:
    """Return the state the skill is in; one that the spec does not know allows nothing."""
    return spec.states.get(skill.state, StateSpec())
