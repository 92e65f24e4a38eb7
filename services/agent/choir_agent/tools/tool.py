"""The port `Tool`, what a call gets and what it gives back.

Implemented by `builtin`; called by the arbiter once it has ruled, locked and committed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from choir_agent.credentials.scope import SecretResource
from choir_agent.tools.manifest import ToolManifest
from choir_common.errors import ChoirError
from choir_common.wire.config import AgentSettings
from choir_common.wire.events import EventPayload
from choir_common.wire.json import JsonObject


class ToolFailed(ChoirError):
    """The tool ran and could not do what was asked; `kind` is a stable word for the model."""

    code, status = "tool_failed", 422

    def __init__(self, kind: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details or {}

    def output(self) -> JsonObject:
        """Return the structured error the model is given."""
        return {"code": self.kind, "message": self.message, **self.details}


class ToolRefused(ToolFailed):
    """What was asked is not allowed as things stand; the call counts as refused, not as failed."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a call gave back."""

    output: JsonObject
    summary: str
    """What happened, in a few words: it stands in every result, also where the rest is cut or kept out."""
    events: tuple[EventPayload, ...] = ()
    """What else it made happen in this session; the arbiter appends them before the result."""

    def result(self) -> JsonObject:
        """Return the output with its summary first."""
        return {"summary": self.summary, **self.output}


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls; `call_id` is the idempotency key of every effect."""

    call_id: str
    lane: str
    path: str = ""
    """The canonical path that is locked, for a tool whose locks name `{path}`."""
    turn_id: str = ""
    dm: str = ""
    settings: AgentSettings | None = None
    """As they were when the call began (spec 16.3); none only in a tool's own tests."""
    secrets: Mapping[SecretResource, str] = field(default_factory=dict, repr=False)
    """Those of the resources the manifest names, and no others (spec 14.3)."""


class Tool(Protocol):
    """Something the model can use."""

    @property
    def manifest(self) -> ToolManifest: ...

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Do it; `arguments` fit the schema.

        Raises ToolFailed for what the model can understand; a cancellation must leave nothing running.
        """
        ...
