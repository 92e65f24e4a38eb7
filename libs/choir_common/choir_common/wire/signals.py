"""What control tells an agent over `GET /events` (SSE): a durable queue per session.

The SSE id is `seq`; a reconnect with `Last-Event-ID` goes on after it, a first connect gets every
signal that is not done yet, in order.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.model import Moment, Wire


class UserMessageSignal(Wire):
    """A message waits in the inbox; it is done when a `user_msg` event naming it is durable."""

    kind: Literal["user_message"] = "user_message"
    inbox_id: str
    dm: str
    text: str
    attachments: tuple[ReceivedFile, ...] = ()
    """The files that came with it, fetched before the signal is handed over."""
    edits: str | None = None
    """The channel's id of the user's earlier message that this one corrects."""
    corrects: str = ""
    """What that earlier message said, if it is known."""
    reply_to: str = ""
    """The words of the message that this one replies to."""
    sent_at: Moment | None = None
    """When the user sent it; none in signals of older versions."""
    traceparent: str | None = Field(default=None, max_length=100)
    """The span that brought the message: what the agent does about it is part of that trace."""


class InjectSignal(Wire):
    """Words for the edge lane at its next safe point (spec 12.8)."""

    kind: Literal["inject"] = "inject"
    text: str
    sent_at: Moment | None = None
    """When the user sent it; none in signals of older versions and in those of Choir itself."""


class CancelSignal(Wire):
    """Cancel a core job by name, or the current turn without one."""

    kind: Literal["cancel"] = "cancel"
    job: str | None = None


class CompactSignal(Wire):
    """Fold old events into the reference summary now."""

    kind: Literal["compact"] = "compact"
    lane: str | None = None
    """`edge` or `core:<job>`; the edge lane unless given."""


class ConfigChangedSignal(Wire):
    """Newer settings can be fetched."""

    kind: Literal["config_changed"] = "config_changed"
    config_version: int


class ApprovalResolvedSignal(Wire):
    """A human decided, or nobody did in time."""

    kind: Literal["approval_resolved"] = "approval_resolved"
    approval_id: str
    status: Literal["approved", "rejected", "expired"]


class ShutdownSignal(Wire):
    """Finish the current safe point, flush, TERMINATE_SELF, exit (spec 17.2)."""

    kind: Literal["shutdown"] = "shutdown"
    reason: str


SignalBody = Annotated[
    UserMessageSignal
    | InjectSignal
    | CancelSignal
    | CompactSignal
    | ConfigChangedSignal
    | ApprovalResolvedSignal
    | ShutdownSignal,
    Field(discriminator="kind"),
]


class Signal(Wire):
    """One entry of a session's signal queue."""

    seq: int
    body: SignalBody


SIGNAL_BODY: TypeAdapter[SignalBody] = TypeAdapter(SignalBody)
