"""The sections `gateways` and `dms` of config.json."""

import re
from typing import Literal

from pydantic import Field

from choir_common.i18n import MAX_TAG
from choir_common.wire.channel_types import (
    CHANNEL_TYPES,
    AcknowledgementEmoji,
    ChannelProperties,
    ChannelType,
)
from choir_common.wire.config_parts import MailSecurity, TimeZone
from choir_common.wire.model import AgentName, Name, WireModel
from choir_common.wire.people_config import PairedRole

NUMBER_ID_PATTERN = r"^[0-9]{1,32}$"


MAX_CHAT_ID = 255
GroupAnswers = Literal["addressed", "all"]
"""Which messages of a group the agent gets."""


class WebhookConfig(WireModel):
    """Webhook to which Telegram sends a bot's updates, instead of long polling."""

    url: str = Field(pattern=r"^https?://\S+$", max_length=1_000)
    """Public HTTPS address that leads to the gateway's `POST /telegram/NAME`."""
    secret: Name
    """The name of the secret that Telegram sends with each update: letters, digits, `_` and `-`."""


SenderCheck = Literal["dmarc", "aligned"]
"""Which results of the mail server prove the sender of a mail."""
AUTHSERV_ID_PATTERN = r"^[A-Za-z0-9._-]+$"
MAX_ADDRESS = 64
MAIL_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*"
)


class MailboxConfig(WireModel):
    """The mailbox of an `email` gateway: how it is reached, and which mail is accepted."""

    smtp_host: str
    """Server for outgoing mail."""
    smtp_port: int = Field(default=465, ge=1, le=65535)
    """465, or 587 with STARTTLS."""
    smtp_security: MailSecurity | None = None
    """Default by port: 465 is tls, any other starttls. `none` is for a server on this host."""
    imap_host: str
    """Server for incoming mail."""
    imap_port: int = Field(default=993, ge=1, le=65535)
    """993, or 143 with STARTTLS."""
    imap_security: MailSecurity | None = None
    """Default by port: 993 is tls, any other starttls."""
    address: str | None = None
    """The sender's address; default: the user name."""
    authserv_id: str = Field(min_length=1, max_length=253, pattern=AUTHSERV_ID_PATTERN)
    """The name with which the mail server begins its `Authentication-Results` headers, such as
    `mx.google.com`. Mail without such a header is refused. The server must remove headers with its name that
    it did not write."""
    sender_check: SenderCheck = "dmarc"
    """What proves the sender: `dmarc`, that the server reports dmarc=pass; `aligned`, also dkim=pass or
    spf=pass for the domain of the sender, for domains without a DMARC policy."""
    folder: str = Field(default="INBOX", min_length=1, max_length=200)
    """The folder that is read."""
    move_to: str | None = Field(default=None, min_length=1, max_length=200)
    """The folder to which accepted mail is moved; by default it stays and is marked as read."""
    mails_per_hour: int = Field(default=30, ge=1, le=1_000)
    """The most mails to one user in an hour; later messages wait, and notices are combined."""


class WhatsAppConfig(WireModel):
    """A business number of WhatsApp's Cloud API; Meta sends its updates to `POST /whatsapp/NAME`."""

    phone_number_id: str = Field(pattern=NUMBER_ID_PATTERN)
    """Meta's id of the number (App Dashboard > WhatsApp > API Setup); not the number itself."""
    app_secret: Name
    """The name of the secret with the app's secret (App settings > Basic), by which Meta signs updates."""
    verify_secret: Name
    """The name of a secret of your choice; enter its value as Verify token beside the address of the
    webhook."""


ExpiringMessages = Literal["refuse", "keep"]
"""What happens with messages that are to disappear."""
SIGNAL_NUMBER_PATTERN = r"^\+[1-9][0-9]{6,14}$"


class SignalConfig(WireModel):
    """An account of signal-cli behind signal-cli-rest-api; `api_url` is the address of that."""

    number: str = Field(pattern=SIGNAL_NUMBER_PATTERN)
    """The phone number of the agent's account, such as +4915112345678."""
    expiring_messages: ExpiringMessages = "refuse"
    """What happens with messages that are to disappear: `refuse` tells the sender that they are not read;
    `keep` reads and stores them like all others."""


class PairingConfig(WireModel):
    """Unknown users get a code, with which an admin gives them a conversation; see docs/people.md."""

    agent: AgentName
    """The agent with which they talk then."""
    role: PairedRole = "guest"
    """Their role: `guest` or `member`."""


class GatewayConfig(WireModel):
    """A channel instance: a bot or a number of a messenger, a mailbox, a program behind a webhook, or the
    console."""

    type: ChannelType
    """The type of channel."""
    secret: Name | None = None
    """The name of the secret with the bot's token, the key of a webhook's signatures, or `user:password` of a
    mailbox; the console has none. Of a Signal account: only for a proxy that asks for a bearer token."""
    app_secret: Name | None = None
    """Of a Slack app: the name of the secret with its app-level token, by which it receives messages."""
    api_url: str | None = None
    """Of a bot: base URL of its API; only needed for another server, such as a self-hosted Bot API server. Of
    a Matrix account: the address of its homeserver. Of a Signal account: the address of signal-cli-rest-api.
    Of a webhook: the address that gets the messages."""
    webhook: WebhookConfig | None = None
    """Use a webhook for a Telegram bot. Without it the gateway polls for updates, which needs no public
    address."""
    acknowledgement: AcknowledgementEmoji | None = None
    """The reaction that the bot puts on each message that Choir has stored; by default none."""
    email: MailboxConfig | None = None
    """The mailbox of an `email` gateway."""
    whatsapp: WhatsAppConfig | None = None
    """The business number of a WhatsApp gateway."""
    signal: SignalConfig | None = None
    """The account of a Signal gateway."""
    pairing: PairingConfig | None = None
    """Whether users who are not in `dms` can ask for a conversation; by default they are ignored."""

    @property
    def channel(self) -> ChannelProperties:
        """Return the properties of its type."""
        return CHANNEL_TYPES[self.type]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of all secrets this channel uses."""
        hook = self.webhook.secret if self.webhook else None
        number = self.whatsapp
        own = (number.app_secret, number.verify_secret) if number else ()
        names = (self.secret, self.app_secret, hook, *own)
        return tuple(name for name in names if name is not None)


class DmConfig(WireModel):
    """One user or one group on a gateway; the DMs of a gateway are its allowlist."""

    gateway: Name
    """A name in `gateways`."""
    user_id: str | None = None
    """The user's id on that channel; Telegram's and Discord's are numbers, as text, Slack's is the member id,
    and Matrix's are such as `@ann:example.org`. By e-mail it is the user's address, on WhatsApp the phone
    number with country code, digits only, on Signal the phone number such as `+4915112345678` or the id of
    the account. A webhook's program chooses them."""
    chat_id: str | None = Field(default=None, min_length=1, max_length=MAX_CHAT_ID)
    """Instead of `user_id`: the id of a group that the bot is in; Telegram's are negative numbers,
    as text, Slack's and Discord's are ids of channels, such as C012AB3CD, Matrix's those of rooms, such as
    `!abc:example.org`, and Signal's begin with `group.`. See docs/conversations.md."""
    topic: str | None = Field(default=None, min_length=1, max_length=MAX_CHAT_ID)
    """One topic of the group, by its id; on Discord a thread, on Slack a thread by the `ts` of its first
    message, on Matrix one by the event id of its first message. Without it, all topics that no other entry
    names."""
    answers: GroupAnswers = "addressed"
    """Which messages of the group the agent gets: `addressed`, those that mention the bot, reply to it or are
    commands; `all`, those of all people."""
    admin: bool = False
    """Whether this user may decide approvals and give admin commands."""
    timezone: TimeZone | None = None
    """This user's time zone (IANA name) for times in prompts; default: the agent's."""
    language: str = Field(default="", max_length=MAX_TAG)
    """The language of Choir's own messages here, as a tag such as `de`; by default that of the person in
    `people`, else that of the user's app where the channel says it, else English."""

    @property
    def is_group(self) -> bool:
        """Return whether it is a group and not one user."""
        return self.chat_id is not None
