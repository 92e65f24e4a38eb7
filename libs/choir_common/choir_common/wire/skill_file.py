"""File format of a skill in a repository, as far as it can be validated without the tools.

Read by control before a skill is staged or built. The agent's own parser is stricter: it knows which tools
exist, and walks every state.
"""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from choir_common.wire.model import JsonObject, WireModel

SKILL_NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
SkillName = Annotated[str, StringConstraints(pattern=SKILL_NAME_PATTERN)]


class SkillTransition(WireModel):
    """A transition to the state `to` on the event `on`."""

    on: str = Field(min_length=1)
    to: str = Field(min_length=1)


class SkillState(WireModel):
    """One state of a skill."""

    objective: str | None = None
    """Required except in terminal states."""
    terminal: bool = False
    allowed_tools: tuple[str, ...] = ()
    transitions: tuple[SkillTransition, ...] = ()


class SkillFile(WireModel):
    """A complete skill."""

    name: SkillName
    description: str
    initial_state: str
    states: dict[str, SkillState] = Field(min_length=1)
    max_steps: int = Field(ge=1)
    interruptible: bool = True
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        if self.initial_state not in self.states:
            raise ValueError(f"initial_state: there is no state {self.initial_state!r}")
        for name, state in self.states.items():
            for transition in state.transitions:
                if transition.to not in self.states:
                    raise ValueError(
                        f"states.{name}: leads to {transition.to!r}, which is no state"
                    )
        return self
