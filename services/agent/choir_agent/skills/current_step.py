"""The current step of a skill: its tools and transitions, and the prompt text about it. Pure.

The text describes only this state; the model never sees the others.
"""

from collections.abc import Callable

import orjson

from choir_agent.log.session_state import SkillState
from choir_agent.skills.skill_spec import CANCEL, TRANSITION_TOOL, SkillSpec, StateSpec
from choir_common.lanes import is_edge
from choir_common.wire.model import JsonObject

ToolNameInPrompt = Callable[[str], str]
"""Maps a tool's canonical name to the name that the model knows."""


def tool_refusal(
    spec: SkillSpec,
    skill: SkillState,
    tool: str,
    in_skills: bool,
    prompt_name: ToolNameInPrompt = str,
) -> JsonObject | None:
    """Return an error if a tool may not be used in the current state, or None.

    `in_skills` comes from the tool's manifest: the tool is allowed in every state, as are those that move
    the skill.
    """
    state = current_state_spec(spec, skill)
    if in_skills or tool in state.allowed_tools:
        return None
    reason = f"The tool {prompt_name(tool)!r} is not allowed in the state {skill.state!r}."
    return refusal_error(spec, skill, "skill_tool_forbidden", reason, prompt_name)


def allowed_tools(spec: SkillSpec, skill: SkillState) -> frozenset[str]:
    """Return the canonical names of the tools that the current state allows."""
    return frozenset(current_state_spec(spec, skill).allowed_tools)


def refusal_error(
    spec: SkillSpec, skill: SkillState, code: str, reason: str, prompt_name: ToolNameInPrompt
) -> JsonObject:
    """Return an error that lists the allowed tools and transitions for the model."""
    return {
        "code": code,
        "message": reason,
        "skill": skill.skill,
        "state": skill.state,
        "allowed_tools": [
            prompt_name(name) for name in current_state_spec(spec, skill).allowed_tools
        ],
        "valid_transitions": [
            {"on": on, "to": to} for on, to in available_transitions(spec, skill)
        ],
    }


def available_transitions(spec: SkillSpec, skill: SkillState) -> list[tuple[str, str | None]]:
    """Return the current state's events with their target states; None means out of the skill."""
    state = current_state_spec(spec, skill)
    transitions: list[tuple[str, str | None]] = [
        (transition.on, transition.to) for transition in state.transitions
    ]
    if spec.interruptible and not state.terminal and state.target_of(CANCEL) is None:
        transitions.append((CANCEL, None))
    return transitions


def current_state_spec(spec: SkillSpec, skill: SkillState) -> StateSpec:
    """Return the spec of the current state; an unknown state allows nothing."""
    return spec.states.get(skill.state, StateSpec())


FEW_ANSWERS = 2
"""Number of answers left in a skill from which their number is said."""
UNFINISHED = "leaves the skill unfinished; use it if the user no longer wants it"


def render_step_note(
    spec: SkillSpec, skill: SkillState, prompt_name: ToolNameInPrompt = str
) -> str:
    """Return the step's objective, its tools, its transitions and the remaining steps."""
    state = current_state_spec(spec, skill)
    tools = ", ".join(prompt_name(name) for name in state.allowed_tools) or "none"
    lines = [
        f"# Current step: {skill.state!r} of the skill {skill.skill!r}",
        f"Objective: {state.objective}",
        f"Tools for this step: {tools}. No other tool will run.",
        f"When it is done, leave it with {prompt_name(TRANSITION_TOOL)}, alone in your answer, and "
        "pass on as `context` what the next step needs to know. Its transitions:",
        *(f"- {on}: {to or UNFINISHED}" for on, to in available_transitions(spec, skill)),
        *_ending(spec, skill),
        "An answer without tool calls goes to the user, and you stay in this step."
        if is_edge(skill.lane)
        else "An answer without tool calls is the result of the whole job and ends it.",
        f"The skill may take {spec.max_steps} answers.",
    ]
    return "\n".join(lines)


def render_limit(spec: SkillSpec, skill: SkillState) -> str:
    """Return how many answers are left in the skill, if they are few."""
    answers_left = spec.max_steps - skill.steps
    few = 0 < answers_left <= FEW_ANSWERS
    return f"Answers left in the skill {skill.skill!r}: {answers_left}." if few else ""


def render_step_input(skill: SkillState) -> str:
    """Return the skill's input and the context from the previous step as JSON; empty if both are empty.

    Both come from the model and may rest on untrusted content, so they are quoted as data in the prompt.
    """
    inputs: JsonObject = {"input": skill.input, "context": skill.context}
    return _json(inputs) if any(inputs.values()) else ""


def _ending(spec: SkillSpec, skill: SkillState) -> list[str]:
    final_events = [
        transition.on
        for transition in current_state_spec(spec, skill).transitions
        if spec.states[transition.to].terminal
    ]
    if not final_events or spec.output_schema is None:
        return []
    return [
        f"With {', '.join(final_events)} the skill ends; give its `output`, which must match this "
        f"JSON Schema: {_json(spec.output_schema)}"
    ]


def _json(value: JsonObject) -> str:
    return orjson.dumps(value).decode()
