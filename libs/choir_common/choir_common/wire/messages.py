"""Messages between gateway and control: in through the inbox, out through the outbox."""

from typing import Literal

from pydantic import Field

from choir_common.wire.events import ReplyKind
from choir_common.wire.model import Moment, Wire

AgentState = Literal["running", "starting", "stopped", "crashed", "unbound"]


class InboundMessage(Wire):
    """A user's message as a channel understood it; `(gateway, update_id)` is its identity."""

    gateway: str
    dm: str
    update_id: str = Field(min_length=1, max_length=200)
    text: str = Field(min_length=1, max_length=100_000)
    sent_at: Moment


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


class Receipt(Wire):
    """What became of a delivery; a failure that may pass is raised as an error instead."""

    outbox_id: int
    status: Literal["delivered", "undeliverable"]
    detail: str = ""


class HistoryRequest(Wire):
    """Ask for a DM's outbound messages after an outbox id, oldest first."""

    dm: str
    after: int = Field(ge=0)
    limit: int = Field(default=200, ge=1, le=1000)


class History(Wire):
    """A page of a DM's outbound messages; `last` is the newest id the DM has at all."""

    messages: tuple[OutboundMessage, ...]
    last: int


class GatewayBinding(Wire):
    """A channel instance; the token's value is in the gateway's own secrets under `secret`."""

    name: str
    type: Literal["telegram", "console"]
    secret: str | None
    api_url: str | None


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


class ChannelTable(Wire):
    """All the gateway needs of the configuration; no secret travels over the bus."""

    config_version: int
    gateways: tuple[GatewayBinding, ...]
    dms: tuple[DmBinding, ...]


class Nothing(Wire):
    """An empty request or reply."""
