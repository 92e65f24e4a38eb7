"""A skill as data: its states, and what is allowed in each."""

from collections.abc import Mapping
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
