"""The factories of the channel types, one row per type.

The properties of the types are in `choir_common.wire.channel_types`.
"""

from choir_gateway.channels.console.channel import ConsoleChannel, ConsoleChannelFactory
from choir_gateway.channels.discord.factory import DiscordChannelFactory
from choir_gateway.channels.email.factory import EmailChannelFactory
from choir_gateway.channels.interface import ChannelFactory, ChannelServices
from choir_gateway.channels.matrix.factory import MatrixChannelFactory
from choir_gateway.channels.signal.factory import SignalChannelFactory
from choir_gateway.channels.slack.factory import SlackChannelFactory
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.telegram.factory import TelegramChannelFactory
from choir_gateway.channels.webhook.factory import WebhookChannelFactory
from choir_gateway.channels.whatsapp.factory import WhatsAppChannelFactory


def make_channel_factories(
    services: ChannelServices, *, console: ConsoleChannel, spool: FileSpool
) -> dict[str, ChannelFactory]:
    """Return the factory of each channel type; each stores its state in a folder of its own."""
    return {
        "telegram": TelegramChannelFactory(services),
        "discord": DiscordChannelFactory(services.of_type("discord")),
        "slack": SlackChannelFactory(services.of_type("slack")),
        "matrix": MatrixChannelFactory(services.of_type("matrix")),
        "email": EmailChannelFactory(services.of_type("email"), spool),
        "whatsapp": WhatsAppChannelFactory(services.of_type("whatsapp")),
        "signal": SignalChannelFactory(services.of_type("signal")),
        "console": ConsoleChannelFactory(console),
        "webhook": WebhookChannelFactory(services, spool),
    }
