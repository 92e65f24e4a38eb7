"""Late import of the Telegram channel, when the first bot is configured. Called by `roster`.

Its library takes some 30 MB, which a gateway without a bot does not need.
"""

import importlib
import os
from typing import cast

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.port import Bot, Neighbours


def make_bot(
    gateway: GatewayBinding, token: str, hook_secret: str | None, neighbours: Neighbours
) -> Bot:
    """Return the channel of a configured bot; it does not run yet."""
    # The library's only switch to its newer types; without it each rate limit logs a warning.
    os.environ.setdefault("PTB_TIMEDELTA", "1")
    module = importlib.import_module("choir_gateway.channels.telegram.channel")
    return cast(Bot, module.make_telegram_channel(gateway, token, hook_secret, neighbours))
