"""Requests about clients of the OpenAI-compatible API."""

from urllib.parse import quote

from choir_common.wire.api_clients import AddApiClient, AddedApiClient, ApiClientView
from choir_common.wire.operator import Page
from choirctl.api.control import ControlClient, parse_response

_PATH = "/v1/clients"


async def add_client(api: ControlClient, request: AddApiClient) -> AddedApiClient:
    """Add a client, or give one a new token."""
    return parse_response(await api.send("POST", _PATH, body=request), AddedApiClient)


async def list_clients(api: ControlClient) -> list[ApiClientView]:
    """Return the clients."""
    return parse_response(await api.send("GET", _PATH), Page[ApiClientView]).items


async def revoke_client(api: ControlClient, name: str) -> None:
    """Revoke a client; raises NotFound."""
    await api.send("DELETE", f"{_PATH}/{quote(name, safe='')}")
