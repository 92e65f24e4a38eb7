"""What memory knows about a tool's failure (error memory)."""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AgentName, Moment, Wire

TroubleOutcome = Literal["resolved", "failed", "abandoned"]
"""Of a failure: a like call worked later, none did although it was tried again, or it was given up."""


class HintsWanted(Wire):
    """A tool has failed; is that known?"""

    agent_id: AgentName
    tool: str = Field(min_length=1, max_length=200)
    said: str = Field(min_length=1, max_length=2_000)
    """The failure in its own words (`eventlog.failure`)."""
    limit: int = Field(default=2, ge=1, le=10)


class ToolHint(Wire):
    """A like failure of the same tool in the past."""

    document_id: str
    at: Moment
    said: str
    tried: str
    outcome: TroubleOutcome
    helped: tuple[str, ...] = ()
    """What was done until it worked; only when it was resolved."""
    seen: int = 1


class ToolHints(Wire):
    """The likest failures, those that were resolved first."""

    hints: tuple[ToolHint, ...]
