"""Factory of Discord channels, with a late import of the channel.

Discord's library takes some 20 MB, which a gateway without a Discord bot does not need.
"""

import logging
from pathlib import Path

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelSecrets, ConversationDirectory


class DiscordChannelFactory:
    """Factory of the channels of Discord bots."""

    def __init__(
        self,
        control: ControlClient,
        files: OutboxFilesClient,
        conversations: ConversationDirectory,
        *,
        directory: Path,
    ) -> None:
        """`directory` holds how far the bots have read."""
        self._control = control
        self._files = files
        self._conversations = conversations
        self._directory = directory

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of a bot. Raises ValueError without a token."""
        if secrets.token is None:
            raise ValueError(f"The bot {gateway.name!r} has no token.")
        # The library warns of intents that direct messages do not need; the channel logs errors itself.
        logging.getLogger("discord").setLevel(logging.CRITICAL)
        from choir_gateway.channels.discord.channel import (  # noqa: PLC0415 - 20 MB, see above
            make_discord_channel,
        )

        return make_discord_channel(
            gateway,
            token=secrets.token,
            directory=self._directory,
            control=self._control,
            files=self._files,
            conversations=self._conversations,
        )
