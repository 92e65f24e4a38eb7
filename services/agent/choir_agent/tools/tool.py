"""The port `Tool`, what a call gets and what it gives back.

Implemented by `builtin`; called by the arbiter once it has ruled, locked and committed.
"""

from dataclasses import dataclass
from typing import Protocol

from choir_agent.tools.manifest import ToolManifest
from choir_common.errors import ChoirError
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


@dataclass(frozen=True, slots=True)
class MemoryWrite:
    """A change of the agent's knowledge that a call made; it becomes an event of its own."""

    operation: str
    document_id: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a call gave back."""

    output: JsonObject
    memory_write: MemoryWrite | None = None


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls; `call_id` is the idempotency key of every effect."""

    call_id: str
    lane: str
    path: str = ""
    """The canonical path that is locked, for a tool whose locks name `{path}`."""


class Tool(Protocol):
    """Something the model can use."""

    @property
    def manifest(self) -> ToolManifest: ...

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Do it; `arguments` fit the schema.

        Raises ToolFailed for what the model can understand; a cancellation must leave nothing running.
        """
        ...
