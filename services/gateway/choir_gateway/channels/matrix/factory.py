"""Factory of Matrix channels, with a late import of the channel.

Its modules and their models take some memory, which a gateway without a Matrix account does not need.
"""

from pathlib import Path

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelSecrets, ConversationDirectory


class MatrixChannelFactory:
    """Factory of the channels of Matrix accounts."""

    def __init__(
        self,
        control: ControlClient,
        files: OutboxFilesClient,
        conversations: ConversationDirectory,
        *,
        directory: Path,
    ) -> None:
        """`directory` holds how far the accounts have read, and their open questions."""
        self._control = control
        self._files = files
        self._conversations = conversations
        self._directory = directory

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
            directory=self._directory,
            control=self._control,
            files=self._files,
            conversations=self._conversations,
        )
