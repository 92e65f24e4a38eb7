"""Memories that are added without a request: reminders for a user's message, hints for a failed tool."""

from typing import Literal

from pydantic import Field

from choir_common.wire.memory_search import Kind, Label, MemoryReader
from choir_common.wire.model import AgentName, AwareTime, JsonObject, WireModel

REMINDERS_HEADING = "[Choir] From memory"
"""First line of the block in a prompt; it follows the user's text in the same message."""
COLLECTIONS_HEADING = "[Choir] Documents in memory are about this"
"""Beginning of the remark that names collections; it follows the user's text and the reminders."""
MAX_KNOWN_DOCUMENTS = 500


class ReadReminders(WireModel):
    """Request the memories that are relevant to a user's message."""

    agent_id: AgentName
    text: str = Field(min_length=1, max_length=10_000)
    """The user's text."""
    session_id: str = Field(min_length=1, max_length=200)
    """The current session, which is excluded: its text is in the prompt or in its summary."""
    known: tuple[str, ...] = Field(default=(), max_length=MAX_KNOWN_DOCUMENTS)
    """Documents that are already in the prompt."""
    budget_tokens: int = Field(default=800, ge=50, le=20_000)
    """Limit for all reminders together, counted as one token per three bytes."""
    deadline_ms: int = Field(default=800, ge=10, le=9_000)
    """When it has passed, the searches continue without vectors."""
    scopes: tuple[Label, ...] = Field(default=(), max_length=20)
    """Only documents whose metadata name one of these as `scope`, and those without a scope."""
    tags: JsonObject = Field(default_factory=dict)
    """Entries that the metadata must contain, except those of rules."""
    reader: MemoryReader | None = None


class Reminder(WireModel):
    """One memory with its date and origin."""

    document_id: str
    kind: Kind
    text: str
    at: AwareTime
    """When it was said or happened."""
    speaker: str | None = None
    session_id: str | None = None
    """The session it is from, or the collection of the document."""
    origin: str = "agent"
    trust: int = 50
    times: int = 1
    """Number of documents with the same text; this is the newest."""
    valid_from: AwareTime | None = None
    """Set only if its validity begins in the future."""
    valid_to: AwareTime | None = None
    """When its validity ends."""


class Reminders(WireModel):
    """Reminders in order: preferences, facts about named things, then similar texts. Often empty."""

    reminders: tuple[Reminder, ...]
    receipts: tuple[str, ...] = ()
    """Receipts of the searches behind them."""
    collections: tuple[str, ...] = ()
    """Collections that have documents about the message, or that it names."""
    empty: bool = False
    """Memory contains nothing but this session, so another request soon is pointless."""


FailureOutcome = Literal["resolved", "failed", "abandoned"]
"""What happened after a failure: a similar call succeeded later, repeated calls failed, or it was given
up."""


class ReadHints(WireModel):
    """Request similar past failures of a tool that has failed."""

    agent_id: AgentName
    tool: str = Field(min_length=1, max_length=200)
    said: str = Field(min_length=1, max_length=2_000)
    """Text of the failure (`eventlog.failure`)."""
    limit: int = Field(default=2, ge=1, le=10)
    reader: MemoryReader | None = None


class ToolHint(WireModel):
    """A similar past failure of the same tool."""

    document_id: str
    at: AwareTime
    said: str
    tried: str
    outcome: FailureOutcome
    helped: tuple[str, ...] = ()
    """The steps that led to success; only for resolved failures."""
    seen: int = 1
    trust: int = 30
    """The least trust of the failure's text and of what the agent had read when it tried this."""


class ToolHints(WireModel):
    """The most similar failures, resolved ones first."""

    hints: tuple[ToolHint, ...]
