"""The sections `gateways` and `dms` of config.json."""

from pydantic import Field

from choir_common.wire.channel_types import (
    CHANNEL_TYPES,
    AcknowledgementEmoji,
    ChannelProperties,
    ChannelType,
)
from choir_common.wire.config_parts import TimeZone
from choir_common.wire.model import Name, WireModel


class WebhookConfig(WireModel):
    """Webhook to which Telegram sends a bot's updates, instead of long polling."""

    url: str = Field(pattern=r"^https?://\S+$", max_length=1_000)
    """Public HTTPS address that leads to the gateway's `POST /telegram/NAME`."""
    secret: Name
    """The name of the secret that Telegram sends with each update: letters, digits, `_` and `-`."""


class GatewayConfig(WireModel):
    """A channel instance: a Telegram or Discord bot, a program behind a webhook, or the console."""

    type: ChannelType
    """The type of channel."""
    secret: Name | None = None
    """The name of the secret with the bot's token, or with the key of a webhook's signatures; the console has
    none."""
    api_url: str | None = None
    """Of a bot: base URL of its API; only needed for another server, such as a self-hosted Bot API server. Of
    a webhook: the address that gets the messages."""
    webhook: WebhookConfig | None = None
    """Use a webhook for a Telegram bot. Without it the gateway polls for updates, which needs no public
    address."""
    acknowledgement: AcknowledgementEmoji | None = None
    """The reaction that the bot puts on each message that Choir has stored; by default none."""

    @property
    def channel(self) -> ChannelProperties:
        """Return the properties of its type."""
        return CHANNEL_TYPES[self.type]

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of all secrets this channel uses."""
        hook = self.webhook.secret if self.webhook else None
        return tuple(name for name in (self.secret, hook) if name is not None)


class DmConfig(WireModel):
    """One user on one gateway; the DMs of a gateway are its allowlist."""

    gateway: Name
    """A name in `gateways`."""
    user_id: str
    """The user's id on that channel; Telegram's and Discord's are numbers, as text. A webhook's program
    chooses them."""
    admin: bool = False
    """Whether this user may decide approvals and give admin commands."""
    timezone: TimeZone | None = None
    """This user's time zone (IANA name) for times in prompts; default: the agent's."""
