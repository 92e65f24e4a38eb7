"""Late import of the Telegram channel, when the first bot is configured. Called by `channel_registry`.

Its library takes some 30 MB, which a gateway without a bot does not need.
"""

import os

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelDependencies


def make_channel(
    gateway: GatewayBinding, token: str, hook_secret: str | None, neighbours: ChannelDependencies
) -> Channel:
    """Return the channel of a configured bot; it does not run yet."""
    # The library's only switch to its newer types; without it each rate limit logs a warning.
    os.environ.setdefault("PTB_TIMEDELTA", "1")
    from choir_gateway.channels.telegram.channel import (  # noqa: PLC0415 - 30 MB, see above
        make_telegram_channel,
    )

    return make_telegram_channel(gateway, token, hook_secret, neighbours)
