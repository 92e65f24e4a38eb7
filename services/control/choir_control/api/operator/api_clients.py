"""`/v1/clients`: the programs that have a token for the OpenAI-compatible API and the MCP server."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request

from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.wire.api_clients import AddApiClient, AddedApiClient, ApiClientView
from choir_common.wire.operator import Page
from choir_control.api.operator.web_origins import WebOrigins
from choir_control.api.transports.listener import TcpListener
from choir_control.api_clients.service import API_PATH, MCP_PATH, ApiClientService

ClientName = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]


def client_routes(
    clients: ApiClientService, origins: WebOrigins, listener: TcpListener
) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/clients", tags=["clients"])

    @router.post("", status_code=HTTPStatus.CREATED, openapi_extra=openapi_body(AddApiClient))
    async def add_client(request: Request) -> AddedApiClient:
        """Add a client, or give one a new token; the token is in this answer only."""
        client = await clients.add(await parse_request_body(request, AddApiClient))
        address = origins.public_address(listener.address)
        return AddedApiClient(
            client=client.view,
            token=client.token,
            base_url=f"{address}{API_PATH}",
            mcp_url=f"{address}{MCP_PATH}",
        )

    @router.get("")
    async def list_clients() -> Page[ApiClientView]:
        """List the clients by name."""
        return Page(items=clients.list_live())

    @router.delete("/{name}", status_code=HTTPStatus.NO_CONTENT)
    async def revoke_client(name: ClientName) -> None:
        """Revoke a client; its open requests end."""
        await clients.revoke(name)

    return router
