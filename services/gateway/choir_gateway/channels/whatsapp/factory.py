"""Factory of WhatsApp channels."""

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import Channel, ChannelSecrets, ChannelServices
from choir_gateway.channels.whatsapp.channel import make_whatsapp_channel
from choir_gateway.channels.whatsapp.signature import MetaSignatures

STATUS_TIMEOUT_S = 5.0
"""Meta's first status arrives within a second or two; without one the response counts."""


class WhatsAppChannelFactory:
    """Factory of the channels of WhatsApp numbers."""

    def __init__(
        self, services: ChannelServices, *, status_timeout_s: float = STATUS_TIMEOUT_S
    ) -> None:
        self._services = services
        self._status_timeout_s = status_timeout_s

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> Channel:
        """Return the channel of a number. Raises ValueError if one of its secrets is missing."""
        if gateway.whatsapp is None:
            raise ValueError(f"The gateway {gateway.name!r} has no section `whatsapp`.")
        if not (secrets.token and secrets.webhook and secrets.verification):
            raise ValueError(f"The gateway {gateway.name!r} lacks one of its three secrets.")
        return make_whatsapp_channel(
            gateway,
            phone_number_id=gateway.whatsapp.phone_number_id,
            token=secrets.token,
            authenticator=MetaSignatures(
                app_secret=secrets.webhook, verify_token=secrets.verification
            ),
            services=self._services,
            status_timeout_s=self._status_timeout_s,
        )
