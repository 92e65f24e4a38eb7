"""Factory of Slack channels, with a late import of the channel.

Slack's library and aiohttp take some 20 MB, which a gateway without a Slack app does not need.
"""

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelSecrets, ChannelServices

BOT_TOKENS = ("xoxb-", "xoxe.xoxb-")
APP_TOKENS = ("xapp-",)


class SlackChannelFactory:
    """Factory of the channels of Slack apps."""

    def __init__(self, services: ChannelServices) -> None:
        self._services = services

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of an app. Raises ValueError without two tokens of the right kinds."""
        bot_token, app_token = secrets.token, secrets.app
        if bot_token is None or app_token is None:
            raise ValueError("A Slack app needs a bot token and an app-level token.")
        if not bot_token.startswith(BOT_TOKENS):
            raise ValueError(
                f"The secret {gateway.secret!r} is not a bot token, which begins with xoxb-. It is in the "
                "app's settings under OAuth & Permissions."
            )
        if not app_token.startswith(APP_TOKENS):
            raise ValueError(
                f"The secret {gateway.app_secret!r} is not an app-level token, which begins with xapp-. "
                "Create it in the app's settings under Basic Information."
            )
        from choir_gateway.channels.slack.channel import (  # noqa: PLC0415 - 20 MB, see above
            make_slack_channel,
        )

        return make_slack_channel(
            gateway,
            bot_token=bot_token,
            app_token=app_token,
            services=self._services,
        )
