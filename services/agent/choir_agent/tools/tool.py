"""The `Tool` protocol, the context of a call and its output.

The arbiter calls a tool after it has decided to run the call, acquired its locks and committed it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from choir_agent.budgets.money import UNLIMITED, MoneyReserver
from choir_agent.tools.manifest import SecretResource, ToolManifest
from choir_common.errors import ChoirError
from choir_common.lanes import is_core
from choir_common.wire.attachments import PictureRef
from choir_common.wire.config import AgentSettings
from choir_common.wire.events import EventPayload
from choir_common.wire.model import JsonObject
from choir_common.wire.speech import SpeechUsage


class ToolFailed(ChoirError):
    """The tool could not do what the call requested; `kind` is a stable error code for the model."""

    code, status = "tool_failed", 422

    def __init__(self, kind: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.details = details or {}

    def error_output(self) -> JsonObject:
        """Return the structured error for the model."""
        return {"code": self.kind, "message": self.message, **self.details}


class ToolRefused(ToolFailed):
    """The request is not allowed in the current state; the call counts as refused, not as failed."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a successful call."""

    output: JsonObject
    summary: str
    """What happened, in a few words; part of every result, even if the rest is truncated or masked."""
    events: tuple[EventPayload, ...] = ()
    """Further events for the session's log; the arbiter appends them before the result."""
    events_lane: str = ""
    """The lane of these events; empty: that of the call."""
    pictures: tuple[PictureRef, ...] = ()
    """Pictures that the result shows to models that see."""
    usage: tuple[SpeechUsage, ...] = ()
    """Speech that the call synthesised."""

    def with_summary(self) -> JsonObject:
        """Return the output with its summary first, also where the tool wrote one that is no text."""
        others = {key: value for key, value in self.output.items() if key != "summary"}
        return {"summary": self.summary, **others}


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file of the workspace whose content a person was shown, with the path of the call's arguments."""

    path: str
    size: int
    sha256: str
    """Empty if it could not be read."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """The caller of a tool; `call_id` is the idempotency key of every effect."""

    call_id: str
    lane: str
    path: str = ""
    """The canonical path that is locked, for a tool whose locks contain `{path}`."""
    turn_id: str = ""
    dm: str = ""
    settings: AgentSettings | None = None
    """The settings when the call began; None only in a tool's own tests."""
    secrets: Mapping[SecretResource, str] = field(default_factory=dict, repr=False)
    """Secrets of the resources that the manifest names, and no others."""
    money: MoneyReserver = UNLIMITED
    """Reservation of money for the calls of providers that the tool makes."""
    offline: bool = False
    """Whether the call must run without network."""
    hosts: tuple[str, ...] = ()
    """Hosts that its programs may reach although they are not known to the egress proxy."""
    shown_files: tuple[AttachedFile, ...] | None = None
    """The files that a person was shown and agreed to send; None if nobody was asked."""

    @property
    def job_id(self) -> str | None:
        """Return the core job that called the tool, or None."""
        return self.turn_id if is_core(self.lane) else None


class Tool(Protocol):
    """A tool that a model can call."""

    @property
    def manifest(self) -> ToolManifest: ...

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Run the call; `arguments` are valid against the schema.

        Raises ToolFailed for errors that the model can understand. A cancelled call must leave
        nothing running.
        """
        ...
