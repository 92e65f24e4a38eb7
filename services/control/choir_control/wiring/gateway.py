"""Wiring of the HTTP clients of the gateway."""

from choir_common.http.client import make_client
from choir_common.http.socket_transport import UnixTransport
from choir_control.api.operator.console import GatewayClients
from choir_control.conversations.gateway_lease import GatewayAddress
from choir_control.settings import ControlSecrets, ControlSettings


def make_gateway_clients(
    settings: ControlSettings, secrets: ControlSecrets, route: GatewayAddress
) -> GatewayClients:
    """Return the clients, whose requests `route` leads to the gateway that works."""
    address, token = settings.gateway_address, secrets.gateway_token
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    clients = GatewayClients(
        console=make_client(address, headers=headers, unix_transport=UnixTransport),
        files=make_client(address, headers=headers),
    )
    for client in (clients.console, clients.files):
        client.event_hooks = {"request": [route.lead]}
    return clients
