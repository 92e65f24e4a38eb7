"""A skill as data: its states, what is allowed in each, and the check of the state machine. Pure.

From every state of a valid state machine, a terminal state is reachable.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from choir_common.wire.model import JsonObject

ERROR = "error"
"""Event that the arbiter fires when the retry budget of a state is used up."""
CANCEL = "cancel"
"""Event that leaves an interruptible skill from any state; a state's own transition of that name has
precedence."""
START_TOOL = "choir.skill.start"
TRANSITION_TOOL = "choir.skill.transition"


@dataclass(frozen=True, slots=True)
class Transition:
    """On event `on`, the skill moves to state `to`."""

    on: str
    to: str


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One step: its objective, its tools and its transitions."""

    objective: str = ""
    allowed_tools: tuple[str, ...] = ()
    transitions: tuple[Transition, ...] = ()
    terminal: bool = False

    def target_of(self, on: str) -> str | None:
        """Return the target state of an event, or None."""
        return next((transition.to for transition in self.transitions if transition.on == on), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSpec:
    """A complete state machine."""

    name: str
    description: str
    initial_state: str
    states: Mapping[str, StateSpec]
    max_steps: int
    """Maximum number of model outputs from start to end."""
    interruptible: bool = True
    """Whether a cancelled turn, or the model's `cancel` transition, ends the skill. If not, a cancelled
    turn leaves the skill in its state and the lane's next turn continues it."""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    is_listed: bool = True
    """Whether prompts list it here; those made for skill folders are listed with the folders."""


def find_machine_fault(
    initial_state: str, states: Mapping[str, StateSpec]
) -> tuple[str, str] | None:
    """Return the first fault as (field, reason), or None."""
    if initial_state not in states:
        return "initial_state", f"there is no state {initial_state!r}; {_known(states)}"
    for name, state in states.items():
        for number, transition in enumerate(state.transitions):
            if transition.to not in states:
                field = f"states.{name}.transitions[{number}].to"
                return field, f"there is no state {transition.to!r}; {_known(states)}"
    if not any(state.terminal for state in states.values()):
        return "states", 'no state is terminal, so it could never end; give one "terminal": true'
    if states[initial_state].terminal:
        return "initial_state", f"{initial_state!r} is terminal: the skill would end as it begins"
    reachable_states = _closure(
        {initial_state}, {name: _next(state) for name, state in states.items()}
    )
    for name in states:
        if name not in reachable_states:
            return f"states.{name}", f"this state is not reachable from {initial_state!r}"
    return _trap(states)


def _trap(states: Mapping[str, StateSpec]) -> tuple[str, str] | None:
    predecessors: dict[str, set[str]] = {name: set() for name in states}
    for name, state in states.items():
        for successor in _next(state):
            predecessors[successor].add(name)
    terminal_states = {name for name, state in states.items() if state.terminal}
    states_with_exit = _closure(terminal_states, predecessors)
    for name in states:
        if name not in states_with_exit:
            return f"states.{name}", "no terminal state is reachable from here"
    return None


def _next(state: StateSpec) -> set[str]:
    return {transition.to for transition in state.transitions}


def _closure(start: Set[str], edges: Mapping[str, Set[str]]) -> set[str]:
    nodes: set[str] = set()
    border = set(start)
    while border:
        nodes |= border
        border = {target for source in border for target in edges[source]} - nodes
    return nodes


def _known(states: Mapping[str, StateSpec]) -> str:
    return f"the states are {', '.join(states)}"
