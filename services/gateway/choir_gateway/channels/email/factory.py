"""Factory of e-mail channels, with a late import of the channel.

The mail libraries take 5 MB, which a gateway without a mailbox does not need.
"""

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.email.account import make_account
from choir_gateway.channels.interface import Channel, ChannelSecrets, ChannelServices
from choir_gateway.channels.spool import FileSpool


class EmailChannelFactory:
    """Factory of the channels of mailboxes."""

    def __init__(self, services: ChannelServices, spool: FileSpool) -> None:
        self._services = services
        self._spool = spool

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of a mailbox. Raises ValueError without a mailbox or a usable secret."""
        if secrets.token is None or gateway.email is None:
            raise ValueError(f"The gateway {gateway.name!r} has no secret or no `email`.")
        account = make_account(gateway.email, secrets.token)
        from choir_gateway.channels.email.parts import (  # noqa: PLC0415 - 5 MB, see above
            make_email_channel,
        )

        return make_email_channel(
            gateway,
            gateway.email,
            account,
            services=self._services,
            spool=self._spool,
        )
