"""Factory of Discord channels, with a late import of the channel.

Discord's library takes some 20 MB, which a gateway without a Discord bot does not need.
"""

import logging

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelSecrets, ChannelServices


class DiscordChannelFactory:
    """Factory of the channels of Discord bots."""

    def __init__(self, services: ChannelServices) -> None:
        self._services = services

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
            services=self._services,
        )
