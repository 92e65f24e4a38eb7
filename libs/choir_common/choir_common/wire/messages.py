"""Messages between gateway and control: inbound through the inbox, outbound through the outbox."""

from typing import Literal, Self

from pydantic import Field, model_validator

from choir_common.i18n import ENGLISH, MAX_TAG
from choir_common.wire.attachments import MAX_FILES, Attachment, Button
from choir_common.wire.channel_config import GroupAnswers, MailboxConfig, SignalConfig
from choir_common.wire.channel_types import (
    CHANNEL_TYPES,
    AcknowledgementEmoji,
    ChannelProperties,
    ChannelType,
)
from choir_common.wire.events import ReplyKind
from choir_common.wire.model import AwareTime, WireModel
from choir_common.wire.speakers import GroupMember

AgentState = Literal["running", "starting", "stopped", "crashed", "unbound"]


MAX_QUOTE = 1_000
MAX_TEXT = 100_000
"""Characters of a message; a channel truncates longer ones."""
MAX_MESSAGE_ID = 256
"""Characters of a channel's id of a message; WhatsApp's have 60 to 100."""
MAX_USER_ID = 255
"""Characters of a channel's id of a user; Matrix allows so many."""


class QuotedMessage(WireModel):
    """The earlier message to which a user's message replies."""

    message_id: str = Field(min_length=1, max_length=MAX_MESSAGE_ID)
    """The channel's id of it; the console's is the outbox id."""
    text: str = Field(default="", max_length=MAX_QUOTE)
    """Its text, or the part that the user selected."""


class InboundMessage(WireModel):
    """A user's message as the channel parsed it, identified by `(gateway, update_id)`."""

    gateway: str
    dm: str
    update_id: str = Field(min_length=1, max_length=200)
    text: str = Field(max_length=MAX_TEXT)
    """Or a file's caption; empty only with attachments."""
    sent_at: AwareTime
    attachments: tuple[Attachment, ...] = Field(default=(), max_length=MAX_FILES)
    message_id: str | None = Field(default=None, min_length=1, max_length=MAX_MESSAGE_ID)
    """The channel's id of it; a later edit refers to it and has the same id."""
    edits: str | None = Field(default=None, min_length=1, max_length=MAX_MESSAGE_ID)
    """The `message_id` of the user's earlier message that this one corrects."""
    reply_to: QuotedMessage | None = None
    author: GroupMember | None = None
    """Who wrote it in a group; None in a private conversation."""
    language: str = Field(default="", max_length=MAX_TAG)
    """The language of the user's app as a tag such as `de`, where the channel says it."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.text and not self.attachments:
            raise ValueError("a message must have text or an attachment")
        return self


class InboundAccepted(WireModel):
    """The message is durable (now, or since its first arrival), or it was a command and has been run."""

    inbox_id: str
    duplicate: bool
    agent_id: str | None
    agent_state: AgentState
    note: str | None = None
    """A sentence for the user: no reply is expected soon, or the result of a command."""
    command: str | None = None
    """The command in the message; no agent answers it. `inbox_id` is empty if nothing was stored."""


class EditTarget(WireModel):
    """The earlier outbound message that this one replaces; its buttons are removed."""

    outbox_id: int
    message_id: str | None = None
    """From `DeliveryReceipt.message_id`; if None, the text is sent as a new message."""


class DeliveryProgress(WireModel):
    """Delivery progress of an outbound message; a retry resumes after these parts."""

    outbox_id: int
    parcels: int = Field(ge=1)
    """Number of parts sent. A channel always splits the same message into the same parts."""
    message_id: str | None = Field(default=None, min_length=1, max_length=MAX_MESSAGE_ID)
    """As in `DeliveryReceipt`, if already known."""


class OutboundMessage(WireModel):
    """A message for a user; `outbox_id` increases system-wide and is the console's SSE id."""

    outbox_id: int
    dm: str
    gateway: str
    agent_id: str
    """The sender; `choir` for Choir itself."""
    session_id: str | None
    """The session that has it in its log, at `rev`; None for Choir's own messages."""
    rev: int | None
    kind: ReplyKind
    text: str
    answers: str | None
    at: AwareTime
    language: str = ENGLISH
    """One of `i18n.LANGUAGES`: that of the words which a channel adds."""
    maybe_repeated: bool = False
    """The outcome of an earlier delivery is unknown; a channel without deduplication must mark the
    message."""
    attachments: tuple[Attachment, ...] = Field(default=(), max_length=MAX_FILES)
    """Files in order; `clients.control` returns their content until this message is delivered."""
    buttons: tuple[Button, ...] = ()
    """One row of buttons below the text."""
    reply_to: str | None = None
    """The channel's id of the user's message that this answers, if newer ones have arrived since."""
    edits: EditTarget | None = None
    """Edit this message instead of sending a new one; nothing to do if it already has this text."""
    partly_sent: DeliveryProgress | None = None
    """Progress of an earlier attempt, stored through `ControlClient.store_progress`."""


class DeliveryReceipt(WireModel):
    """The final result of a delivery; a temporary failure is raised as an error instead."""

    outbox_id: int
    status: Literal["delivered", "undeliverable"]
    detail: str = ""
    message_id: str | None = Field(default=None, min_length=1, max_length=MAX_MESSAGE_ID)
    """The channel's id of the message with the text (its last part, which has the buttons). Edits and replies
    refer to it. The console's is the outbox id."""


class ButtonPress(WireModel):
    """A press of a button, possibly forged: `data` must prove it."""

    gateway: str
    user_id: str = Field(max_length=MAX_USER_ID)
    chat_id: str = Field(max_length=MAX_USER_ID)
    """The chat of the button: a group's, or in a private conversation the user's own id."""
    data: str = Field(max_length=64)
    message_id: str | None = Field(default=None, max_length=MAX_MESSAGE_ID)
    callback_id: str = Field(min_length=1, max_length=100)
    """The channel's id of this press; a repeated press gets the same response."""


class ButtonResponse(WireModel):
    """Text for the user who pressed. The message itself is edited through the outbox, by `edits`."""

    answer: str = Field(max_length=200)
    """A short line; Telegram's limit is 200 characters."""


class HistoryRequest(WireModel):
    """Request a DM's outbound messages after an outbox id, oldest first."""

    dm: str
    after: int = Field(ge=0)
    limit: int = Field(default=200, ge=1, le=1000)


class OutboundHistory(WireModel):
    """A page of a DM's outbound messages; `last` is the DM's newest outbox id."""

    messages: tuple[OutboundMessage, ...]
    last: int


class WebhookBinding(WireModel):
    """The webhook to which Telegram sends a bot's updates."""

    url: str
    """Public HTTPS address that leads to the gateway's `POST /telegram/<gateway>`."""
    secret: str
    """The name of the secret that Telegram sends with each update; its value comes with the tokens."""


class WhatsAppBinding(WireModel):
    """The WhatsApp number of a gateway; the values of the secrets come with the tokens."""

    phone_number_id: str
    app_secret: str
    """The name of the secret with the key of Meta's signatures."""
    verify_secret: str
    """The name of the secret that Meta sends to verify the address of the webhook."""


class GatewayBinding(WireModel):
    """A channel instance; the token's value is in the gateway's own secrets under `secret`."""

    name: str
    type: ChannelType
    secret: str | None
    api_url: str | None
    webhook: WebhookBinding | None = None
    acknowledgement: AcknowledgementEmoji | None = None
    """The reaction to each message that was stored."""
    app_secret: str | None = None
    """The name of the secret with an app-level token; its value comes with the tokens."""
    email: MailboxConfig | None = None
    """The mailbox of an `email` gateway."""
    whatsapp: WhatsAppBinding | None = None
    signal: SignalConfig | None = None
    """The account of a `signal` gateway."""
    pairing: bool = False
    """Whether unknown users get a pairing code."""
    starts_work: bool = False
    """Whether a trigger takes mail of this mailbox that is of no user."""

    @property
    def channel(self) -> ChannelProperties:
        """Return the properties of its type."""
        return CHANNEL_TYPES[self.type]


class ChannelCommand(WireModel):
    """A command for a channel's command menu."""

    name: str
    """With its slash and without a space; a command of two words is listed by the first."""
    summary: str
    admin: bool
    """Only for DMs of admins."""


class DmBinding(WireModel):
    """A user who may write through a gateway, or a group whose members may."""

    name: str
    gateway: str
    user_id: str = ""
    """Empty for a group."""
    admin: bool
    chat_id: str = ""
    """Of a group."""
    topic: str = ""
    """Of a group: the only topic, or empty for all that no other DM names."""
    answers: GroupAnswers = "addressed"
    language: str = ENGLISH
    """One of `i18n.LANGUAGES`: that of the gateway's own words here."""

    @property
    def address(self) -> str:
        """Return where messages go: the user id, or `CHAT` or `CHAT/TOPIC` for a group."""
        return self.user_id or (f"{self.chat_id}/{self.topic}" if self.topic else self.chat_id)


class ReadChannels(WireModel):
    """Request the channels; control also sends the bots' tokens over HTTP if the gateway's are outdated."""

    tokens_version: int = 0
    """The version of the gateway's tokens; 0: those from its startup."""
    instance: str = ""
    """Identifies the gateway process; a new value means that the gateway was restarted."""
    address: str = Field(default="", pattern=r"^[0-9A-Fa-f.:]{0,45}$")
    """IP address at which control reaches this process; with one, it works only while it has the lease."""
    leaving: bool = False
    """The process stops, so that another may work at once."""


class ChannelTable(WireModel):
    """The gateway's part of the configuration; it contains no secret values."""

    config_version: int
    gateways: tuple[GatewayBinding, ...]
    dms: tuple[DmBinding, ...]
    commands: tuple[ChannelCommand, ...] = ()
    """The commands for conversations, in the order of the command table."""
    lease_s: float = 0.0
    """Seconds, from the request on, in which the gateway may work; 0: without a limit."""
    standby: bool = False
    """Another gateway has the lease, and this one must not work; the table is empty."""


class Empty(WireModel):
    """An empty request or response."""
