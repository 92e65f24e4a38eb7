"""Prompt text about the current step of a skill. Pure.

Called by `lanes/prompts`. It describes only this state; the model never sees the others.
"""

import orjson

from choir_agent.log.state import EDGE, SkillState
from choir_agent.skills.allow import Shown, present, ways_on
from choir_agent.skills.spec import TRANSITION_TOOL, SkillSpec
from choir_common.wire.json import JsonObject

UNFINISHED = "out of the skill, unfinished; for when the user wants it no more"


def step_note(spec: SkillSpec, skill: SkillState, shown: Shown = str) -> str:
    """Return the step's objective, its tools, its transitions and the remaining steps."""
    state = present(spec, skill)
    tools = ", ".join(shown(name) for name in state.allowed_tools) or "none"
    left = spec.max_steps - skill.steps
    lines = [
        f"# Your present step: {skill.state!r} of the skill {skill.skill!r}",
        f"Objective: {state.objective}",
        f"Tools for this step: {tools}. No other tool will run.",
        f"When it is done, leave it with {shown(TRANSITION_TOOL)}, alone in your answer, and hand on as "
        "`context` what the next step needs to know. These are its ways on:",
        *(f"- {on}: {to or UNFINISHED}" for on, to in ways_on(spec, skill)),
        *_ending(spec, skill),
        "An answer in words alone goes to the user, and you stay in this step."
        if skill.lane == EDGE
        else "An answer in words alone is the result of the whole job, and ends it.",
        f"Answers left in this skill: {left}.",
    ]
    return "\n".join(lines)


def handed_on(skill: SkillState) -> str:
    """Return the skill's input and the context from the previous step as JSON; empty if both are empty.

    Both come from the model and may rest on untrusted content, so they are quoted as data in the prompt.
    """
    handed: JsonObject = {"input": skill.input, "context": skill.context}
    return _json(handed) if any(handed.values()) else ""


def _ending(spec: SkillSpec, skill: SkillState) -> list[str]:
    ends = [t.on for t in present(spec, skill).transitions if spec.states[t.to].terminal]
    if not ends or spec.output_schema is None:
        return []
    return [
        f"With {', '.join(ends)} the skill ends; give its `output`, which must fit this JSON Schema: "
        f"{_json(spec.output_schema)}"
    ]


def _json(value: JsonObject) -> str:
    return orjson.dumps(value).decode()
