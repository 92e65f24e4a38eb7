"""The section `harnesses` of config.json: external coding agents that do core jobs."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from choir_common.i18n import _
from choir_common.wire.mcp_config import (
    RESERVED_VARIABLES,
    SERVER_NAME_PATTERN,
    Argument,
    EnvironmentName,
    EnvironmentValue,
)
from choir_common.wire.model import AgentName, Name, WireModel
from choir_common.wire.policy import Pattern

HarnessName = Annotated[str, StringConstraints(pattern=SERVER_NAME_PATTERN)]
"""Lower-case letters, digits and hyphens: `harness.NAME.start` is the name of a tool."""
HarnessProtocol = Literal["acp", "jsonl"]


class HarnessConfig(WireModel):
    """A coding agent that agents may give core jobs to."""

    command: tuple[Argument, ...] = Field(min_length=1)
    """The program and its arguments. It is started for each job, in the workspace, confined like
    `choir.exec`."""
    protocol: HarnessProtocol = "acp"
    """What it speaks over standard input and output: `acp`, the Agent Client Protocol, or `jsonl`, the JSON
    lines of docs/harnesses.md."""
    agents: tuple[AgentName, ...] = Field(min_length=1)
    """The agents that may use it; the models of others do not hear of it."""
    description: str = Field(default="", max_length=200)
    """What it is good for, in a few words, for the agent's model."""
    environment: dict[EnvironmentName, EnvironmentValue] = Field(default_factory=dict)
    """Environment variables; values that are secret belong in `secrets`."""
    secrets: dict[EnvironmentName, Name] = Field(default_factory=dict)
    """Environment variables, each with the name of the secret that is its value. The program and all that it
    starts can read them."""
    hosts: tuple[Pattern, ...] = ()
    """Patterns of the only hosts that it may reach; without one it has no network."""
    model: Name | None = None
    """The entry of `models` whose prices its tokens have, if it does not report its cost itself."""
    start_timeout_ms: int = Field(default=60_000, ge=1_000, le=600_000)
    """The longest time until it has answered the first requests."""

    @model_validator(mode="after")
    def _check(self) -> "HarnessConfig":
        names = {name.upper() for name in (*self.environment, *self.secrets)}
        if names & RESERVED_VARIABLES or set(self.environment) & set(self.secrets):
            raise ValueError(
                _("a variable is set twice, or is one that Choir sets: {names}").format(
                    names=", ".join(sorted(RESERVED_VARIABLES))
                )
            )
        return self

    def secret_names(self) -> frozenset[str]:
        """Return the names of the secrets that it gets."""
        return frozenset(self.secrets.values())


def harnesses_of(
    harnesses: dict[HarnessName, HarnessConfig], agent_id: str
) -> dict[str, HarnessConfig]:
    """Return the harnesses that an agent may use."""
    return {
        name: harness.model_copy(update={"agents": (agent_id,)})
        for name, harness in harnesses.items()
        if agent_id in harness.agents
    }
