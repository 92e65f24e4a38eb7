"""The factories of the channel types, one row per type.

The properties of the types are in `choir_common.wire.channel_types`.
"""

from pathlib import Path

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_gateway.channels.console.channel import ConsoleChannel, ConsoleChannelFactory
from choir_gateway.channels.discord.factory import DiscordChannelFactory
from choir_gateway.channels.interface import ChannelFactory, ConversationDirectory
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.telegram.factory import TelegramChannelFactory
from choir_gateway.channels.webhook.factory import WebhookChannelFactory


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
        "console": ConsoleChannelFactory(console),
        "webhook": WebhookChannelFactory(
            control=control, files=files, conversations=conversations, spool=spool
        ),
    }
