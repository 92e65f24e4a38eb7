"""Factory of webhook channels."""

from choir_common.http.client import make_client
from choir_common.webhook_signature import WebhookSigner
from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.webhook.channel import WebhookChannel
from choir_gateway.channels.webhook.sender import REQUEST_TIMEOUT_S, WebhookSender


class WebhookChannelFactory:
    """Factory of the channels of webhook gateways."""

    def __init__(self, services: ChannelServices, spool: FileSpool) -> None:
        self._services = services
        self._spool = spool

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> WebhookChannel:
        """Return the channel of a gateway.

        Raises ValueError without a secret or an address; control's validation refuses such a gateway.
        """
        if secrets.token is None or gateway.api_url is None:
            raise ValueError(f"The gateway {gateway.name!r} has no secret or no `api_url`.")
        client = make_client(gateway.api_url, timeout_s=REQUEST_TIMEOUT_S)
        signer = WebhookSigner(secrets.token)
        return WebhookChannel(
            gateway.name,
            client=client,
            signer=signer,
            sender=WebhookSender(
                client, gateway.api_url, signer=signer, files=self._services.files
            ),
            control=self._services.control,
            conversations=self._services.conversations,
            spool=self._spool,
        )
