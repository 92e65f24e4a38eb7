"""Factory of Signal channels, with a late import: the WebSocket's library takes some megabytes."""

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelSecrets, ChannelServices


class SignalChannelFactory:
    """Factory of the channels of Signal accounts."""

    def __init__(self, services: ChannelServices) -> None:
        self._services = services

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of an account. Raises ValueError if its settings are incomplete."""
        if gateway.signal is None or gateway.api_url is None:
            raise ValueError(f"The gateway {gateway.name!r} has no section `signal` or no api_url.")
        if gateway.secret is not None and secrets.token is None:
            raise ValueError(
                f"It lacks a secret: `choirctl secret set {gateway.secret}`, then `choirctl secret apply`."
            )
        from choir_gateway.channels.signal.channel import (  # noqa: PLC0415 - aiohttp, see above
            make_signal_channel,
        )

        return make_signal_channel(
            gateway,
            account=gateway.signal,
            address=gateway.api_url,
            secret=secrets.token,
            services=self._services,
        )
