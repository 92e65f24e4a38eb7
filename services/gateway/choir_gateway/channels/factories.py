"""The factories of the channel types, one row per type.

The properties of the types are in `choir_common.wire.channel_types`.
"""

from pathlib import Path

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_gateway.channels.console.channel import ConsoleChannel, ConsoleChannelFactory
from choir_gateway.channels.discord.factory import DiscordChannelFactory
from choir_gateway.channels.email.factory import EmailChannelFactory
from choir_gateway.channels.interface import ChannelFactory, ConversationDirectory
from choir_gateway.channels.matrix.factory import MatrixChannelFactory
from choir_gateway.channels.signal.factory import SignalChannelFactory
from choir_gateway.channels.slack.factory import SlackChannelFactory
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.telegram.factory import TelegramChannelFactory
from choir_gateway.channels.webhook.factory import WebhookChannelFactory
from choir_gateway.channels.whatsapp.factory import WhatsAppChannelFactory


def make_channel_factories(
    *,
    control: ControlClient,
    files: OutboxFilesClient,
    conversations: ConversationDirectory,
    console: ConsoleChannel,
    spool: FileSpool,
    directory: Path,
) -> dict[str, ChannelFactory]:
    """Return the factory of each channel type; below `directory` channels store how far they have read."""
    return {
        "telegram": TelegramChannelFactory(control, files, conversations),
        "discord": DiscordChannelFactory(
            control, files, conversations, directory=directory / "discord"
        ),
        "slack": SlackChannelFactory(control, files, conversations, directory=directory / "slack"),
        "matrix": MatrixChannelFactory(
            control, files, conversations, directory=directory / "matrix"
        ),
        "email": EmailChannelFactory(
            control=control,
            files=files,
            conversations=conversations,
            spool=spool,
            directory=directory / "email",
        ),
        "whatsapp": WhatsAppChannelFactory(
            control=control,
            files=files,
            conversations=conversations,
            directory=directory / "whatsapp",
        ),
        "signal": SignalChannelFactory(
            control=control,
            files=files,
            conversations=conversations,
            directory=directory / "signal",
        ),
        "console": ConsoleChannelFactory(console),
        "webhook": WebhookChannelFactory(
            control=control, files=files, conversations=conversations, spool=spool
        ),
    }
