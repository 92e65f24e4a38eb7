"""Random skills, walked by random proposals through the real fold.

Whatever a model proposes: never a state outside of the spec, never a forbidden tool, one transition in an
answer, an end within max_steps; and a call that runs again after a crash moves nothing.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import SessionState, SkillState, dump_state, load_state
from choir_agent.skills.current_step import allowed_tools, render_step_note, tool_refusal
from choir_agent.skills.skill_engine import (
    TransitionAllowed,
    TransitionCaller,
    TransitionRefused,
    TransitionRequest,
    due_skill_events,
    events_after_cancel,
    rule_on_transition,
    start_skill,
)
from choir_agent.skills.skill_parser import parse_skill_document
from choir_agent.skills.skill_spec import SkillSpec
from choir_common.wire.events import (
    EventPayload,
    ModelOutput,
    SkillStarted,
    SkillStopped,
    SkillTransitioned,
    ToolResultCommitted,
)
from choir_common.wire.model import JsonObject
from tests.support.state_machines import (
    CountingMachine,
    enough_steps,
    machine_runs,
    machine_settings,
)

LANE, TURN = "edge", "turn_1"
TOOLS = ("choir.fs.read", "choir.fs.write", "choir.exec", "choir.web.browse")
EVENTS = ("complete", "revise", "fail", "error", "cancel", "jump")
RETRIES = 2


@st.composite
def skill_documents(draw: st.DrawFn) -> JsonObject:
    """Draw a well-formed skill: a line from the first state to the end, and edges at random."""
    names = [f"state{number}" for number in range(draw(st.integers(1, 5)))]
    ends = ["done"] if draw(st.booleans()) else ["done", "failed"]
    targets = [*names[1:], "done"]
    states: JsonObject = {}
    for place, name in enumerate(names):
        events = draw(st.permutations(EVENTS))
        more = draw(st.lists(st.sampled_from([*names, *ends]), max_size=3))
        ways = [targets[place], *more, *(ends if place == 0 else [])][: len(events)]
        states[name] = {
            "objective": f"Reach what is asked of {name}.",
            "allowed_tools": [*draw(st.lists(st.sampled_from(TOOLS), unique=True))],
            "transitions": [{"on": on, "to": to} for on, to in zip(events, ways, strict=False)],
        }
    states |= {name: {"terminal": True} for name in ends}
    return {
        "name": "random",
        "description": "A random skill.",
        "initial_state": names[0],
        "states": states,
        "max_steps": draw(st.integers(1, 12)),
        "interruptible": draw(st.booleans()),
    }


class SkillMachine(CountingMachine):
    """One lane, its log and a model without sense."""

    def __init__(self) -> None:
        super().__init__()
        self.state = SessionState()
        self.spec: SkillSpec
        self.outputs = 0
        self.moves = 0
        self.calls = 0
        self.stops: list[SkillStopped] = []

    @initialize(document=skill_documents())
    def begin(self, document: JsonObject) -> None:
        self.spec = parse_skill_document(document, TOOLS)
        self.start()

    def commit(self, payload: EventPayload) -> None:
        event = CommittedEvent(self.state.rev + 1, "", LANE, "", payload)
        self.state = apply_event(self.state, event)
        if isinstance(payload, SkillStopped):
            self.stops.append(payload)

    def skill(self) -> SkillState | None:
        return self.state.skill_of(LANE)

    def caller(self) -> TransitionCaller:
        self.calls += 1
        return TransitionCaller(TURN, f"call_{self.calls}")

    def result(self, caller: TransitionCaller, status: str, tool: str) -> None:
        payload = ToolResultCommitted.model_validate(
            {
                "turn_id": TURN,
                "call_id": caller.call_id,
                "tool": tool,
                "status": status,
                "output": {},
            }
        )
        self.commit(payload)

    def start(self) -> None:
        caller = self.caller()
        ruling = start_skill(self.spec, self.skill(), {"topic": "x"}, caller)
        assert isinstance(ruling, TransitionAllowed)
        for event in ruling.events:
            self.commit(event)
        again = start_skill(self.spec, self.skill(), {"topic": "x"}, caller)
        assert isinstance(again, TransitionAllowed)
        assert (again.events, again.output) == ((), ruling.output)
        self.result(caller, "success", "choir.skill.start")
        self.outputs = 0

    @precondition(lambda self: self.skill() is None)
    @rule()
    def start_again(self) -> None:
        self.start()

    @precondition(lambda self: self.skill() is not None)
    @rule(
        proposals=st.lists(
            st.one_of(
                st.sampled_from((*TOOLS, "choir.skill.start")),
                st.sampled_from(EVENTS).map(str.upper),
            ),
            max_size=4,
        )
    )
    def answer(self, proposals: list[str]) -> None:
        """Let the model answer with calls in some order; an event's name in capitals is a transition."""
        self.commit(
            ModelOutput(turn_id=TURN, text="", model="m", finish_reason="stop", completion_tokens=1)
        )
        self.outputs += 1
        self.moves = 0
        for proposal in proposals:
            if proposal.isupper():
                self.propose_transition(proposal.lower())
            else:
                self.propose_tool(proposal)
        self.look()

    def propose_tool(self, tool: str) -> None:
        skill = self.skill()
        if skill is None:
            return
        caller = self.caller()
        error = tool_refusal(self.spec, skill, tool, in_skills=False)
        written = self.spec.states[skill.state]
        assert (error is None) == (tool in written.allowed_tools)
        assert tool != "choir.skill.start" or error is not None
        if error is not None:
            assert error["allowed_tools"] == [*written.allowed_tools]
        self.result(caller, "refused" if error else "success", tool)

    def propose_transition(self, on: str) -> None:
        skill = self.skill()
        if skill is None:
            return
        caller = self.caller()
        proposal = TransitionRequest(on=on, context={"seen": self.outputs}, output={"result": on})
        ruling = rule_on_transition(self.spec, skill, proposal, caller)
        if isinstance(ruling, TransitionRefused):
            assert ruling.error["state"] == skill.state
            self.result(caller, "refused", "choir.skill.transition")
            return
        self.moves += 1
        for event in ruling.events:
            if isinstance(event, SkillTransitioned):
                assert self.spec.states[skill.state].target_of(on) == event.to_state
            self.commit(event)
        self.run_again_after_a_crash(proposal, caller, ruling)
        self.result(caller, "success", "choir.skill.transition")

    def run_again_after_a_crash(
        self, proposal: TransitionRequest, caller: TransitionCaller, first: TransitionAllowed
    ) -> None:
        self.state = load_state(dump_state(self.state))
        skill = self.skill()
        if skill is None:
            assert proposal.on == "cancel"
            return
        again = rule_on_transition(self.spec, skill, proposal, caller)
        assert isinstance(again, TransitionAllowed)
        assert (again.events, again.output) == ((), first.output)

    def look(self) -> None:
        """Do as a lane does before it asks the model."""
        for _ in range(10):
            skill = self.skill()
            due = due_skill_events(self.spec, skill, RETRIES, TURN) if skill else ()
            if not due:
                return
            for event in due:
                self.commit(event)
        raise AssertionError("a skill never settles")

    @precondition(lambda self: self.skill() is not None)
    @rule()
    def cancel_the_turn(self) -> None:
        skill = self.skill()
        assert skill is not None
        for event in events_after_cancel(self.spec, skill, TURN):
            self.commit(event)
        assert (self.skill() is None) == self.spec.interruptible

    @invariant()
    def the_lane_stands_in_a_state_of_the_spec_that_has_not_ended(self) -> None:
        skill = self.skill()
        if skill is not None:
            assert not self.spec.states[skill.state].terminal
            assert skill.refusals <= RETRIES
            assert allowed_tools(self.spec, skill) == set(
                self.spec.states[skill.state].allowed_tools
            )

    @invariant()
    def no_answer_moves_twice(self) -> None:
        assert self.moves <= 1

    @invariant()
    def it_ends_within_its_steps(self) -> None:
        assert self.outputs <= self.spec.max_steps
        assert self.skill() is None or self.outputs < self.spec.max_steps

    @invariant()
    def the_note_tells_of_no_other_state(self) -> None:
        skill = self.skill()
        if skill is None:
            return
        note = render_step_note(self.spec, skill)
        assert self.spec.states[skill.state].objective in note
        for name, state in self.spec.states.items():
            if name != skill.state and state.objective:
                assert state.objective not in note

    @invariant()
    def what_completed_had_arrived(self) -> None:
        for stop in self.stops:
            assert stop.outcome != "completed" or stop.output


@pytest.mark.parametrize("part", machine_runs())
def test_a_model_without_sense_stays_within_its_skill(part: int) -> None:
    run_state_machine_as_test(SkillMachine, settings=machine_settings(50, 30, usual_length=58))


def test_the_walks_through_skills_went_far_enough() -> None:
    assert enough_steps(SkillMachine)


def spec_of(**fields: object) -> SkillSpec:
    document = {
        "name": "tea",
        "description": "Make tea.",
        "initial_state": "boil",
        "max_steps": 6,
        "states": {
            "boil": {
                "objective": "Boil water.",
                "allowed_tools": ["choir.fs.read"],
                "transitions": [{"on": "complete", "to": "pour"}, {"on": "error", "to": "mop"}],
            },
            "mop": {"objective": "Mop up.", "transitions": [{"on": "error", "to": "done"}]},
            "pour": {"objective": "Pour.", "transitions": [{"on": "complete", "to": "done"}]},
            "done": {"terminal": True},
        },
        "output_schema": {"type": "object", "required": ["cups"]},
    }
    return parse_skill_document(document | fields, TOOLS)


def in_state(state: str, *, steps: int = 1, entered_at: int = 0, refusals: int = 0) -> SkillState:
    return SkillState(LANE, "tea", state, {}, {}, steps, refusals, entered_at=entered_at)


CALLER = TransitionCaller(TURN, "call_1")


def test_a_refusal_names_what_is_allowed_instead() -> None:
    error = tool_refusal(spec_of(), in_state("boil"), "choir.exec", in_skills=False)
    assert error is not None
    assert error["code"] == "skill_tool_forbidden"
    assert error["allowed_tools"] == ["choir.fs.read"]
    ways = error["valid_transitions"]
    assert isinstance(ways, list)
    assert [way["on"] for way in ways if isinstance(way, dict)] == ["complete", "error", "cancel"]


def test_more_refusals_than_the_budget_make_the_error_transition() -> None:
    spec = spec_of()
    assert due_skill_events(spec, in_state("boil", refusals=2), 2, TURN) == ()
    (event,) = due_skill_events(spec, in_state("boil", refusals=3), 2, TURN)
    assert isinstance(event, SkillTransitioned)
    assert (event.on, event.to_state) == ("error", "mop")
    (stop,) = due_skill_events(spec, in_state("pour", refusals=3), 2, TURN)
    assert isinstance(stop, SkillStopped)
    assert stop.outcome == "error"
    assert "3 calls were refused in the state 'pour'" in stop.reason


def test_the_output_is_held_to_its_schema_where_the_skill_ends() -> None:
    spec, skill = spec_of(), in_state("pour")
    proposal = TransitionRequest(on="complete", context={}, output={"pots": 1})
    refused = rule_on_transition(spec, skill, proposal, CALLER)
    assert isinstance(refused, TransitionRefused)
    assert refused.error["code"] == "skill_output_invalid"
    assert "cups" in str(refused.error["faults"])
    fits = rule_on_transition(
        spec, skill, TransitionRequest(on="complete", context={}, output={"cups": 2}), CALLER
    )
    assert isinstance(fits, TransitionAllowed)
    (event,) = fits.events
    assert isinstance(event, SkillTransitioned)
    assert event.context == {"cups": 2}


def test_a_skill_that_ends_by_error_is_no_success_and_needs_no_output() -> None:
    spec = spec_of()
    ruling = rule_on_transition(
        spec, in_state("mop"), TransitionRequest(on="error", context={}), CALLER
    )
    assert isinstance(ruling, TransitionAllowed)
    skill = SkillState(LANE, "tea", "done", {}, {}, 2, entered_on="error", entered_by="call_1")
    (stop,) = due_skill_events(spec, skill, 2, TURN)
    assert isinstance(stop, SkillStopped)
    assert stop.outcome == "error"


def test_a_state_the_model_has_not_seen_cannot_be_left() -> None:
    ruling = rule_on_transition(
        spec_of(),
        in_state("pour", steps=3, entered_at=3),
        TransitionRequest(on="complete", context={}, output={"cups": 1}),
        CALLER,
    )
    assert isinstance(ruling, TransitionRefused)
    assert ruling.error["code"] == "skill_step_skipped"


def test_a_context_is_a_few_facts_and_not_a_history() -> None:
    proposal = TransitionRequest(on="complete", context={"notes": "x" * 20_000})
    ruling = rule_on_transition(spec_of(), in_state("boil"), proposal, CALLER)
    assert isinstance(ruling, TransitionRefused)
    assert "of at most 16000" in str(ruling.error["faults"])


def test_an_input_is_held_to_its_schema() -> None:
    spec = spec_of(input_schema={"type": "object", "required": ["leaf"]})
    ruling = start_skill(spec, None, {}, CALLER)
    assert isinstance(ruling, TransitionRefused)
    assert "leaf" in str(ruling.error["faults"])
    fits = start_skill(spec, None, {"leaf": "green"}, CALLER)
    assert isinstance(fits, TransitionAllowed)
    assert isinstance(fits.events[0], SkillStarted)


def test_no_skill_starts_inside_another() -> None:
    ruling = start_skill(spec_of(), in_state("boil"), {}, CALLER)
    assert isinstance(ruling, TransitionRefused)
    assert ruling.error["code"] == "skill_active"


def test_a_skill_that_was_taken_away_ends_instead_of_hanging() -> None:
    (gone,) = due_skill_events(None, in_state("boil"), 2, TURN)
    (renamed,) = due_skill_events(spec_of(), in_state("steep"), 2, TURN)
    for stop in (gone, renamed):
        assert isinstance(stop, SkillStopped)
        assert stop.outcome == "error"
    assert tool_refusal(spec_of(), in_state("steep"), "choir.fs.read", in_skills=False) is not None


def test_the_note_shows_the_output_schema_only_where_the_skill_can_end() -> None:
    assert '"cups"' in render_step_note(spec_of(), in_state("pour"))
    assert '"cups"' not in render_step_note(spec_of(), in_state("boil"))
