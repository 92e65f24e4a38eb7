"""Remembered tool failures (error memory)."""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AgentName, Moment, Wire

TroubleOutcome = Literal["resolved", "failed", "abandoned"]
"""What happened after a failure: a similar call succeeded later, repeated calls failed, or it was given
up."""


class HintsWanted(Wire):
    """Request similar past failures of a tool that has failed."""

    agent_id: AgentName
    tool: str = Field(min_length=1, max_length=200)
    said: str = Field(min_length=1, max_length=2_000)
    """Text of the failure (`eventlog.failure`)."""
    limit: int = Field(default=2, ge=1, le=10)


class ToolHint(Wire):
    """A similar past failure of the same tool."""

    document_id: str
    at: Moment
    said: str
    tried: str
    outcome: TroubleOutcome
    helped: tuple[str, ...] = ()
    """The steps that led to success; only for resolved failures."""
    seen: int = 1


class ToolHints(Wire):
    """The most similar failures, resolved ones first."""

    hints: tuple[ToolHint, ...]
