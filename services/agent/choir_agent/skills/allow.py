"""Tools and transitions that a skill's current state allows. Pure.

Called by the arbiter's policy for each proposed call of a lane that is in a skill, and by `engine`.
"""

from collections.abc import Callable

from choir_agent.log.state import SkillState
from choir_agent.skills.spec import CANCEL, SkillSpec, StateSpec
from choir_common.wire.json import JsonObject

Shown = Callable[[str], str]
"""Maps a tool's canonical name to the name that the model knows."""


def refusal(
    spec: SkillSpec, skill: SkillState, tool: str, in_skills: bool, shown: Shown = str
) -> JsonObject | None:
    """Return an error if a tool may not be used in the current state, or None.

    `in_skills` comes from the tool's manifest: the tool is allowed in every state, as are those that move
    the skill.
    """
    state = present(spec, skill)
    if in_skills or tool in state.allowed_tools:
        return None
    reason = f"The tool {shown(tool)!r} is not allowed in the state {skill.state!r}."
    return refused(spec, skill, "skill_tool_forbidden", reason, shown)


def allowed_tools(spec: SkillSpec, skill: SkillState) -> frozenset[str]:
    """Return the canonical names of the tools that the current state allows."""
    return frozenset(present(spec, skill).allowed_tools)


def refused(spec: SkillSpec, skill: SkillState, code: str, reason: str, shown: Shown) -> JsonObject:
    """Return an error that lists the allowed tools and transitions for the model."""
    return {
        "code": code,
        "message": reason,
        "skill": skill.skill,
        "state": skill.state,
        "allowed_tools": [shown(name) for name in present(spec, skill).allowed_tools],
        "valid_transitions": [{"on": on, "to": to} for on, to in ways_on(spec, skill)],
    }


def ways_on(spec: SkillSpec, skill: SkillState) -> list[tuple[str, str | None]]:
    """Return the current state's events with their target states; None means out of the skill."""
    state = present(spec, skill)
    ways: list[tuple[str, str | None]] = [(known.on, known.to) for known in state.transitions]
    if spec.interruptible and not state.terminal and state.to(CANCEL) is None:
        ways.append((CANCEL, None))
    return ways


def present(spec: SkillSpec, skill: SkillState) -> StateSpec:
    """Return the spec of the current state; an unknown state allows nothing."""
    return spec.states.get(skill.state, StateSpec())
