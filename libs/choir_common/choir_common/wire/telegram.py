"""Connecting a Telegram bot: operators to control, and control to the gateway, which alone calls Telegram.

The gateway's routes get a token with each request, because the bot is not configured yet. These requests are
sent over HTTP, never over NATS.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.model import AgentName, AwareTime, Name, WireModel

MAX_POLL_S = 30.0

BotToken = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,20}:[A-Za-z0-9_-]{1,100}$"),
    Field(repr=False),
]
"""A bot's token as BotFather prints it: the bot's id, a colon and its key."""
ApiUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]{1,500}$")]


def bot_id(token: str) -> str:
    """Return the id of the bot to which a token belongs; it stays when the token is replaced."""
    return token.partition(":")[0]


class BotAccess(WireModel):
    """How the gateway reaches a bot that need not be configured."""

    token: BotToken
    api_url: ApiUrl | None = None
    """Base URL of a self-hosted Bot API server."""


class BotIdentity(WireModel):
    """A bot as Telegram describes it."""

    username: str
    webhook_url: str = ""
    """Where Telegram sends its updates; empty if they are polled."""


class ReadBotMessages(BotAccess):
    """Request new messages of a bot, as one long poll."""

    after: int | None = None
    """Confirm the updates up to this id, so that Telegram does not send them again."""
    wait_s: float = Field(default=0, ge=0, le=MAX_POLL_S)


class BotMessage(WireModel):
    """A text message to a bot in a private chat with a person."""

    update_id: int
    user_id: str
    user_name: str
    text: str


class BotMessages(WireModel):
    """New messages; `last` is the newest update id, also of updates that are no such message."""

    messages: tuple[BotMessage, ...]
    last: int | None


class ConnectTelegram(BotAccess):
    """Connect a bot with an agent and with the person who sends the bot a code."""

    agent_id: AgentName
    person: Name | None = None
    """Who sends the code, by the name in `people`: the bot's user gets this person's rights. null: the user
    is nobody in `people`, and an admin."""
    replace_webhook: bool = False
    """Remove a webhook that another program has set."""


ConnectionState = Literal["waiting", "applying", "connected", "failed"]


class TelegramConnectionError(WireModel):
    """Why a bot was not connected."""

    code: str
    """As in the problem documents of `/v1`."""
    message: str


class TelegramConnection(WireModel):
    """The state of one attempt to connect a bot; it contains no token."""

    connection_id: str
    agent_id: str
    person: str | None = None
    """Whose rights the user gets; null: those of an admin."""
    state: ConnectionState
    bot: str
    """The bot's user name, without @."""
    code: str
    """The code that a person sends to the bot; it is valid once."""
    link: str
    """Opens the bot in Telegram and sends the code."""
    expires_at: AwareTime
    wrong_codes: int = 0
    trouble: str = ""
    """Why Telegram cannot be reached at the moment; empty if it can."""
    user_name: str = ""
    """The person who sent the code."""
    gateway: str = ""
    """The names of the new entries in config.json and secrets.json."""
    dm: str = ""
    secret: str = ""
    error: TelegramConnectionError | None = None
    remaining: tuple[str, ...] = ()
    """What is left to do by hand, as sentences; empty if nothing."""
