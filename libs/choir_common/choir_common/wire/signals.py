"""Signals from control to an agent over `GET /events` (SSE): a durable queue per session.

The SSE id is `seq`. A reconnect with `Last-Event-ID` continues after it; a first connection gets every open
signal in order.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.model import DEFERRED, AwareTime, WireModel
from choir_common.wire.schedules import WakeUp
from choir_common.wire.speakers import MessageSpeaker


class MessageSender(MessageSpeaker):
    """The user who wrote a message, and what `people` of config.json says about that person."""

    timezone: str = ""
    """IANA name; empty: as the settings say."""
    language: str = ""


class UserMessageSignal(WireModel):
    """A message is in the inbox; the signal is done when a `user_msg` event naming it is durable."""

    kind: Literal["user_message"] = "user_message"
    inbox_id: str
    dm: str
    text: str
    attachments: tuple[ReceivedFile, ...] = ()
    """The message's files, fetched before the signal is sent."""
    edits: str | None = None
    """The channel's id of the user's earlier message that this one corrects."""
    corrects: str = ""
    """Text of that earlier message, if known."""
    reply_to: str = ""
    """Text of the message that this one replies to."""
    sent_at: AwareTime | None = None
    """When the user sent it; None in signals of older versions."""
    wake_up: WakeUp | None = None
    """Set if a schedule, a trigger or another agent sent it and no person wrote it."""
    traceparent: str | None = Field(default=None, max_length=100)
    """The span in which the message arrived; the agent's work on it joins that trace."""
    sender: MessageSender | None = None
    """None: the user of a private conversation is nobody in `people`, or a schedule sent it."""


class InjectSignal(WireModel):
    """Text for the edge lane of a conversation at its next safe point."""

    kind: Literal["inject"] = "inject"
    text: str
    sent_at: AwareTime | None = None
    """When the user sent it; None in signals of older versions and in Choir's own."""
    dm: str = ""
    """The conversation; empty: the home conversation."""
    sender: MessageSender | None = None
    """As in `UserMessageSignal`."""


class CancelSignal(WireModel):
    """Cancel a core job by name; without a name, the current turn of a conversation."""

    kind: Literal["cancel"] = "cancel"
    job: str | None = None
    dm: str = ""
    """The conversation; empty: the home conversation."""


class CompactSignal(WireModel):
    """Summarize old events into the reference summary now."""

    kind: Literal["compact"] = "compact"
    lane: str | None = None
    """`edge`, `edge:<dm>` or `core:<job>`; default: the lane of the conversation `dm`."""
    dm: str = ""
    """The conversation; empty: the home conversation."""


class ConfigChangedSignal(WireModel):
    """Newer settings are available."""

    kind: Literal["config_changed"] = "config_changed"
    config_version: int


class ApprovalResolvedSignal(WireModel):
    """A human decided an approval, or it expired."""

    kind: Literal["approval_resolved"] = "approval_resolved"
    approval_id: str
    status: Literal["approved", "rejected", "expired"]


class ShutdownSignal(WireModel):
    """Reach the next safe point, flush, send TERMINATE_SELF, exit."""

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


class Signal(WireModel):
    """One entry of a session's signal queue."""

    seq: int
    body: SignalBody


SIGNAL_BODY: TypeAdapter[SignalBody] = TypeAdapter(SignalBody, config=DEFERRED)
