"""Rules for moving between the states of a skill. Pure.

The model proposes, the engine decides, the arbiter appends; nothing here runs a tool or waits.

A crash may interrupt a lane between any two events. Each event names the call that caused it and the state
keeps that id, so a call that runs again finds its own id, returns the same result and moves nothing. The end
of a skill is not part of any call: `due_skill_events` sees the terminal state and ends the skill, however
often it is called.
"""

from dataclasses import dataclass
from typing import Literal

import orjson

from choir_agent.log.session_state import SkillState
from choir_agent.skills.current_step import ToolNameInPrompt, refusal_error
from choir_agent.skills.skill_spec import CANCEL, ERROR, SkillSpec, StateSpec
from choir_common.json_schema import find_violations
from choir_common.wire.events import SkillStarted, SkillStopped, SkillTransitioned
from choir_common.wire.model import JsonObject

MAX_STEP_INPUT_BYTES = 16_000
"""Limit for input and context, which are part of every prompt of the skill."""
SkillEvent = SkillStarted | SkillTransitioned | SkillStopped


@dataclass(frozen=True, slots=True)
class TransitionCaller:
    """The call that asks for a transition."""

    turn_id: str
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionRequest:
    """A transition proposed by the model."""

    on: str
    context: JsonObject
    """Data for the next step."""
    output: JsonObject | None = None
    """The skill's result, if the transition ends it."""


@dataclass(frozen=True, slots=True)
class TransitionAllowed:
    """The transition is allowed; `output` is the tool result."""

    events: tuple[SkillEvent, ...]
    output: JsonObject


@dataclass(frozen=True, slots=True)
class TransitionRefused:
    """The transition is refused; `error` gives the reason and the alternatives."""

    error: JsonObject


TransitionRuling = TransitionAllowed | TransitionRefused


def start_skill(
    spec: SkillSpec, present: SkillState | None, input_: JsonObject, caller: TransitionCaller
) -> TransitionRuling:
    """Enter a skill's initial state, if the lane is in no skill and the input matches its schema."""
    if present is not None:
        # The same call again after a crash: the same result, and no event.
        if present.entered_by == caller.call_id:
            return TransitionAllowed((), _entered(spec, spec.initial_state))
        reason = f"The skill {present.skill!r} is active; only one skill can be active at a time."
        return TransitionRefused(
            {"code": "skill_active", "message": reason, "skill": present.skill}
        )
    faults = _violations("input", spec.input_schema, input_)
    if faults:
        message = f"The input does not match the input schema of the skill {spec.name!r}."
        return TransitionRefused(
            {"code": "skill_input_invalid", "message": message, "faults": [*faults]}
        )
    event = SkillStarted(
        turn_id=caller.turn_id,
        skill=spec.name,
        state=spec.initial_state,
        input=input_,
        call_id=caller.call_id,
    )
    return TransitionAllowed((event,), _entered(spec, spec.initial_state))


def rule_on_transition(
    spec: SkillSpec,
    skill: SkillState,
    proposal: TransitionRequest,
    caller: TransitionCaller,
    prompt_name: ToolNameInPrompt = str,
) -> TransitionRuling:
    """Leave the current state by one of its transitions, at most once in each model output."""
    # The same call again after a crash: the same result, and no event.
    if skill.entered_by == caller.call_id:
        return TransitionAllowed((), _entered(spec, skill.state))
    state = spec.states.get(skill.state, StateSpec())
    # No model output since the state was entered, so the model has not seen it.
    if state.terminal or skill.entered_at == skill.steps:
        reason = f"You have not seen the state {skill.state!r} yet: one transition in each answer."
        return TransitionRefused(
            refusal_error(spec, skill, "skill_step_skipped", reason, prompt_name)
        )
    to = state.target_of(proposal.on)
    if to is None and proposal.on == CANCEL and spec.interruptible:
        stopped = _skill_stopped(
            skill, caller.turn_id, "cancelled", "The model left the skill with `cancel`."
        )
        return TransitionAllowed((stopped,), {"skill": spec.name, "ended": True})
    if to is None:
        reason = f"The state {skill.state!r} has no transition on {proposal.on!r}."
        return TransitionRefused(
            refusal_error(spec, skill, "skill_transition_invalid", reason, prompt_name)
        )
    context, faults = _checked_context(spec, proposal, to)
    if faults:
        reason = f"The data of the transition on {proposal.on!r} is invalid."
        error = refusal_error(spec, skill, "skill_output_invalid", reason, prompt_name)
        return TransitionRefused({**error, "faults": [*faults]})
    event = SkillTransitioned(
        turn_id=caller.turn_id,
        skill=skill.skill,
        on=proposal.on,
        from_state=skill.state,
        to_state=to,
        context=context,
        call_id=caller.call_id,
    )
    return TransitionAllowed((event,), _entered(spec, to))


def due_skill_events(
    spec: SkillSpec | None, skill: SkillState, retries: int, turn_id: str
) -> tuple[SkillEvent, ...]:
    """Return due automatic events: the end of a skill that reached a terminal state or exceeded a limit.

    Call it while no call of the lane is open and before the model is called, until it returns nothing.
    `spec` is None for a skill that this agent no longer has.
    """
    state = None if spec is None else spec.states.get(skill.state)
    if spec is None or state is None:
        reason = f"This agent no longer has a skill {skill.skill!r} with a state {skill.state!r}."
        return (_skill_stopped(skill, turn_id, "error", reason),)
    if state.terminal:
        return (_arrived(skill, turn_id),)
    if skill.steps >= spec.max_steps:
        reason = f"It did not end within {skill.steps} steps (max_steps)."
        return (_skill_stopped(skill, turn_id, "error", reason),)
    if skill.refusals > retries:
        return (_failed(state, skill, turn_id),)
    return ()


def events_after_cancel(
    spec: SkillSpec | None, skill: SkillState, turn_id: str
) -> tuple[SkillEvent, ...]:
    """Return the effect of a cancelled turn on the lane's skill: it ends if it is interruptible.

    The turn itself ends at once in either case.
    """
    if spec is not None and not spec.interruptible:
        return ()
    return (_skill_stopped(skill, turn_id, "cancelled", "The turn was cancelled."),)


def events_after_job_end(skill: SkillState, turn_id: str) -> tuple[SkillEvent, ...]:
    """Return the effect of a core job's end on its skill: every skill that started ends exactly once."""
    return (
        _skill_stopped(skill, turn_id, "cancelled", "The core job ended before the skill did."),
    )


def _checked_context(
    spec: SkillSpec, proposal: TransitionRequest, to: str
) -> tuple[JsonObject, list[str]]:
    if not spec.states[to].terminal:
        return proposal.context, _violations("context", None, proposal.context)
    output = proposal.output or {}
    # An end by the error transition has no result to validate.
    schema = None if proposal.on == ERROR else spec.output_schema
    return output, _violations("output", schema, output)


def _violations(what: str, schema: JsonObject | None, value: JsonObject) -> list[str]:
    size = len(orjson.dumps(value))
    if size > MAX_STEP_INPUT_BYTES:
        return [f"{what}: {size} bytes of JSON, of at most {MAX_STEP_INPUT_BYTES}"]
    return [f"{what}: {fault}" for fault in find_violations(schema, value)]


def _arrived(skill: SkillState, turn_id: str) -> SkillStopped:
    if skill.entered_on == ERROR:
        return _skill_stopped(skill, turn_id, "error", "It ended by its error transition.")
    return SkillStopped(
        turn_id=turn_id, skill=skill.skill, outcome="completed", output=skill.context
    )


def _failed(state: StateSpec, skill: SkillState, turn_id: str) -> SkillEvent:
    reason = f"{skill.refusals} calls were refused in the state {skill.state!r}."
    to = state.target_of(ERROR)
    if to is None:
        return _skill_stopped(skill, turn_id, "error", reason)
    return SkillTransitioned(
        turn_id=turn_id,
        skill=skill.skill,
        on=ERROR,
        from_state=skill.state,
        to_state=to,
        context={"error": reason},
    )


def _skill_stopped(
    skill: SkillState, turn_id: str, outcome: Literal["error", "cancelled"], reason: str
) -> SkillStopped:
    return SkillStopped(turn_id=turn_id, skill=skill.skill, outcome=outcome, reason=reason)


def _entered(spec: SkillSpec, name: str) -> JsonObject:
    state = spec.states[name]
    if state.terminal:
        return {"skill": spec.name, "state": name, "ended": True}
    return {"skill": spec.name, "state": name, "objective": state.objective}
