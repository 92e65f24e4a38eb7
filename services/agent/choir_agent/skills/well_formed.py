"""Validation of a skill's state machine as a whole. Pure.

Called by `read` after all fields are valid. From every state of a valid machine, a terminal state is
reachable.
"""

from collections.abc import Mapping, Set

from choir_agent.skills.spec import StateSpec


def machine_fault(initial_state: str, states: Mapping[str, StateSpec]) -> tuple[str, str] | None:
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
    reached = _closure({initial_state}, {name: _next(state) for name, state in states.items()})
    for name in states:
        if name not in reached:
            return f"states.{name}", f"no transition leads here from {initial_state!r}"
    return _trap(states)


def _trap(states: Mapping[str, StateSpec]) -> tuple[str, str] | None:
    before: dict[str, set[str]] = {name: set() for name in states}
    for name, state in states.items():
        for following in _next(state):
            before[following].add(name)
    ends = {name for name, state in states.items() if state.terminal}
    leaving = _closure(ends, before)
    for name in states:
        if name not in leaving:
            return f"states.{name}", "no way leads from here to a terminal state"
    return None


def _next(state: StateSpec) -> set[str]:
    return {transition.to for transition in state.transitions}


def _closure(start: Set[str], edges: Mapping[str, Set[str]]) -> set[str]:
    reached: set[str] = set()
    border = set(start)
    while border:
        reached |= border
        border = {there for here in border for there in edges[here]} - reached
    return reached


def _known(states: Mapping[str, StateSpec]) -> str:
    return f"the states are {', '.join(states)}"
