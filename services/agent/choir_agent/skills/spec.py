"""A skill as data: its states and what may happen in each (spec 10.1).

Made by `read`, which lets no ill-formed one through; walked by `engine`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from choir_common.wire.json import JsonObject

ERROR = "error"
"""The event that the arbiter itself fires when a state's retry budget is used up (spec 10.2)."""
CANCEL = "cancel"
"""Leaves an interruptible skill from any state; a state's own transition of that name goes first."""
START_TOOL = "choir.skill.start"
TRANSITION_TOOL = "choir.skill.transition"


@dataclass(frozen=True, slots=True)
class Transition:
    """On this event the skill goes to that state."""

    on: str
    to: str


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One step: what is to be reached, with which tools, and what comes after."""

    objective: str = ""
    allowed_tools: tuple[str, ...] = ()
    transitions: tuple[Transition, ...] = ()
    terminal: bool = False

    def to(self, on: str) -> str | None:
        """Return the state that an event leads to."""
        return next((known.to for known in self.transitions if known.on == on), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSpec:
    """A whole state machine."""

    name: str
    description: str
    initial_state: str
    states: Mapping[str, StateSpec]
    max_steps: int
    """Model outputs from its start to its end."""
    interruptible: bool = True
    """Whether a cancelled turn, or the model on the user's word, ends it. If not, a cancelled turn leaves
    it in its state and the lane's next turn goes on with it."""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
