"""Factories of Telegram channels and of the inspector of bots, with late imports.

Telegram's library takes some 30 MB, which a gateway without a bot does not need.
"""

import os

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import (
    BotInspector,
    Channel,
    ChannelSecrets,
    ChannelServices,
)


class TelegramChannelFactory:
    """Factory of the channels of Telegram bots."""

    def __init__(self, services: ChannelServices) -> None:
        self._services = services

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of a bot. Raises ValueError without a token."""
        if secrets.token is None:
            raise ValueError(f"The bot {gateway.name!r} has no token.")
        _prepare_library()
        from choir_gateway.channels.telegram.channel import (  # noqa: PLC0415 - 30 MB, see above
            make_telegram_channel,
        )

        return make_telegram_channel(
            gateway,
            token=secrets.token,
            webhook_secret=secrets.webhook,
            services=self._services,
        )


class TelegramInspectorFactory:
    """Factory of the inspector of Telegram bots."""

    def make(self) -> BotInspector:
        """Return an inspector."""
        _prepare_library()
        from choir_gateway.channels.telegram.inspector import (  # noqa: PLC0415 - 30 MB, see above
            TelegramBotInspector,
        )

        return TelegramBotInspector()


def _prepare_library() -> None:
    # The library's only switch to its newer types; without it each rate limit logs a warning.
    os.environ.setdefault("PTB_TIMEDELTA", "1")
