"""Factory of Matrix channels, with a late import of the channel.

Its modules and their models take some memory, which a gateway without a Matrix account does not need.
"""

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelSecrets, ChannelServices


class MatrixChannelFactory:
    """Factory of the channels of Matrix accounts."""

    def __init__(self, services: ChannelServices) -> None:
        self._services = services

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of an account. Raises ValueError without a token or an address."""
        if secrets.token is None or gateway.api_url is None:
            raise ValueError(f"The gateway {gateway.name!r} has no token or no `api_url`.")
        from choir_gateway.channels.matrix.channel import (  # noqa: PLC0415 - see above
            make_matrix_channel,
        )

        return make_matrix_channel(
            gateway,
            homeserver=gateway.api_url,
            token=secrets.token,
            services=self._services,
        )
