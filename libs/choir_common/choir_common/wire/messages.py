"""Messages between gateway and control: in through the inbox, out through the outbox."""

from typing import Literal, Self

from pydantic import Field, model_validator

from choir_common.wire.attachments import MAX_FILES, Attachment, Button
from choir_common.wire.events import ReplyKind
from choir_common.wire.model import Moment, Wire

AgentState = Literal["running", "starting", "stopped", "crashed", "unbound"]


MAX_QUOTE = 1_000
MAX_TEXT = 100_000
"""Characters of the message that is replied to; a channel cuts what is longer."""


class QuotedMessage(Wire):
    """The earlier message that a user's message replies to."""

    message_id: str = Field(min_length=1, max_length=64)
    """The channel's own id of it; the console's is the outbox id."""
    text: str = Field(default="", max_length=MAX_QUOTE)
    """Its words, or the part that the user marked."""


class InboundMessage(Wire):
    """A user's message as a channel understood it; `(gateway, update_id)` is its identity."""

    gateway: str
    dm: str
    update_id: str = Field(min_length=1, max_length=200)
    text: str = Field(max_length=MAX_TEXT)
    """Or a file's caption; empty only beside attachments."""
    sent_at: Moment
    attachments: tuple[Attachment, ...] = Field(default=(), max_length=MAX_FILES)
    message_id: str | None = Field(default=None, min_length=1, max_length=64)
    """The channel's own id of it: a later edit names it, and keeps it."""
    edits: str | None = Field(default=None, min_length=1, max_length=64)
    """The `message_id` of the user's earlier message that this one corrects."""
    reply_to: QuotedMessage | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.text and not self.attachments:
            raise ValueError("a message needs text or an attachment")
        return self


class Accepted(Wire):
    """The message is durable (now, or since the first time it came), or was a command and is obeyed."""

    inbox_id: str
    duplicate: bool
    agent_id: str | None
    agent_state: AgentState
    note: str | None = None
    """A sentence for the user: nobody will answer soon, or what a command did."""
    command: str | None = None
    """The command the message was: no agent answers it. `inbox_id` is empty if nothing was stored."""


class EditOf(Wire):
    """The earlier outbound message whose place words take; its buttons go."""

    outbox_id: int
    message_id: str | None = None
    """What `Receipt.message_id` said of it; none when nobody knows: then the words are a new message."""


class PartlySent(Wire):
    """So much of a message has surely arrived: whoever goes on with it begins behind that."""

    outbox_id: int
    parcels: int = Field(ge=1)
    """Of the things the channel makes of it, in order; the same message always makes the same."""
    message_id: str | None = Field(default=None, min_length=1, max_length=64)
    """As in `Receipt`, if it is known yet."""


class OutboundMessage(Wire):
    """Words for a user; `outbox_id` grows per system and is the SSE id of the console."""

    outbox_id: int
    dm: str
    gateway: str
    agent_id: str
    """Who says it; `choir` for Choir itself."""
    session_id: str | None
    """The session whose log holds it, at `rev`; none for Choir's own words."""
    rev: int | None
    kind: ReplyKind
    text: str
    answers: str | None
    at: Moment
    maybe_repeated: bool = False
    """An earlier delivery's outcome is unknown: a channel without deduplication must say so."""
    attachments: tuple[Attachment, ...] = Field(default=(), max_length=MAX_FILES)
    """Files in order; `clients.outbox_files` brings their bytes until this message is delivered."""
    buttons: tuple[Button, ...] = ()
    """One row of buttons below the words."""
    reply_to: str | None = None
    """The channel's own id of the user's message that this answers, if others have come since."""
    edits: EditOf | None = None
    """Edit that message instead of saying something new; one that shows these words already is done."""
    partly_sent: PartlySent | None = None
    """How far an earlier attempt came, as the gateway told (`ControlInbox.keep_progress`)."""


class Receipt(Wire):
    """What became of a delivery; a failure that may pass is raised as an error instead."""

    outbox_id: int
    status: Literal["delivered", "undeliverable"]
    detail: str = ""
    message_id: str | None = Field(default=None, min_length=1, max_length=64)
    """The channel's id of the message that bears the words (the last part, which has the buttons); an edit
    and a reply name it. The console's is the outbox id."""


class Press(Wire):
    """A button was pressed below a message, or somebody made that up: the data must prove it."""

    gateway: str
    user_id: str = Field(max_length=64)
    chat_id: str = Field(max_length=64)
    """Where the button is; in a DM of Telegram's the user's own id. The console gives the user id."""
    data: str = Field(max_length=64)
    message_id: str | None = Field(default=None, max_length=64)
    callback_id: str = Field(min_length=1, max_length=100)
    """The channel's id of this press; an answer is repeated for a repetition."""


class Pressed(Wire):
    """What to show whoever pressed. The message itself is edited through the outbox, by `edits`."""

    answer: str = Field(max_length=200)
    """A short line; Telegram takes 200 characters."""


class HistoryRequest(Wire):
    """Ask for a DM's outbound messages after an outbox id, oldest first."""

    dm: str
    after: int = Field(ge=0)
    limit: int = Field(default=200, ge=1, le=1000)


class History(Wire):
    """A page of a DM's outbound messages; `last` is the newest id the DM has at all."""

    messages: tuple[OutboundMessage, ...]
    last: int


class WebhookBinding(Wire):
    """Where Telegram is to bring a bot's updates, instead of being asked for them."""

    url: str
    """Public https address that ends at the gateway's `POST /telegram/<gateway>`."""
    secret: str
    """The name of the secret that Telegram shows with each update; its value comes with the tokens."""


class GatewayBinding(Wire):
    """A channel instance; the token's value is in the gateway's own secrets under `secret`."""

    name: str
    type: Literal["telegram", "console"]
    secret: str | None
    api_url: str | None
    webhook: WebhookBinding | None = None


class ChannelCommand(Wire):
    """A command for a channel's own list of commands."""

    name: str
    """With its slash, and no space: commands of two words are listed by the first."""
    summary: str
    admin: bool
    """Only for DMs of admins."""


class DmBinding(Wire):
    """A user who may speak through a gateway."""

    name: str
    gateway: str
    user_id: str
    admin: bool


class ChannelsRequest(Wire):
    """Ask for the channels; control brings the bots' tokens over the gateway's own door if these are old."""

    tokens_version: int = 0
    """The version of the tokens the gateway has; 0: those it was started with."""
    instance: str = ""
    """Identifies the process that asks; another one than before means that the gateway was restarted."""


class ChannelTable(Wire):
    """All the gateway needs of the configuration; no secret travels over the bus."""

    config_version: int
    gateways: tuple[GatewayBinding, ...]
    dms: tuple[DmBinding, ...]
    commands: tuple[ChannelCommand, ...] = ()
    """What can be typed in a conversation, in the order of the one command table (spec 19.3)."""


class Nothing(Wire):
    """An empty request or reply."""
