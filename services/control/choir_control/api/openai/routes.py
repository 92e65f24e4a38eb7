"""The routes of the OpenAI-compatible API: `/chat/completions`, `/responses` and `/models`."""

from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Path, Request
from fastapi.responses import Response

from choir_common.errors import NotFound
from choir_common.http.routers import ServiceRouter
from choir_common.http.service_app import LargeBodyRoute
from choir_control.api.openai.answers import AnswerHandler
from choir_control.api.openai.authentication import ClientAuthentication, ConversationResolver
from choir_control.api.openai.chat_request import parse_chat_request
from choir_control.api.openai.chat_response import Model, ModelList
from choir_control.api.openai.error_responses import OpenAIErrorMiddleware
from choir_control.api.openai.response_request import parse_response_request
from choir_control.api.openai.turns import TurnService
from choir_control.api_clients.service import API_PATH, ApiClientService
from choir_control.configuration.api_clients import ApiClient

MAX_BODY = 30_000_000
"""Bytes, with files in base64 and the whole history."""
BODIES = LargeBodyRoute("POST", rf"{API_PATH}/(chat/completions|responses)", MAX_BODY, 60.0)


class OpenAIEndpoints:
    """The endpoints for clients, with their access check, and errors in OpenAI's shape."""

    def __init__(
        self, turns: TurnService, clients: ApiClientService, conversations: ConversationResolver
    ) -> None:
        self._authentication = ClientAuthentication(clients)
        self._router = _make_router(turns, clients, conversations)

    def add_to(self, app: FastAPI) -> None:
        """Add the endpoints to an application."""
        for_clients = [Depends(self._authentication)]
        app.include_router(self._router, prefix=API_PATH, dependencies=for_clients)
        app.add_middleware(OpenAIErrorMiddleware)


def _make_router(
    turns: TurnService, clients: ApiClientService, conversations: ConversationResolver
) -> APIRouter:
    # OpenAI's documentation describes the shapes
    router = ServiceRouter(include_in_schema=False)
    handler = AnswerHandler(turns, clients, conversations)

    @router.get("/models")
    async def list_models(request: Request) -> ModelList:
        """List the agents of the client."""
        client: ApiClient = request.state.client
        return ModelList(data=tuple(_model(it, client) for it in conversations.list_agents(client)))

    @router.get("/models/{name}")
    async def show_model(name: Annotated[str, Path(max_length=64)], request: Request) -> Model:
        """Show an agent of the client."""
        client: ApiClient = request.state.client
        if name not in conversations.list_agents(client):
            raise NotFound(f"model: there is no agent {name!r} for this client.")
        return _model(name, client)

    @router.post("/chat/completions", response_class=Response)
    async def create_completion(request: Request) -> Response:
        """Send the last message of the user to an agent, and return or stream its answer."""
        return await handler.respond(request, parse_chat_request)

    @router.post("/responses", response_class=Response)
    async def create_response(request: Request) -> Response:
        """Do the same as `/chat/completions` in the shape of OpenAI's newer API."""
        return await handler.respond(request, parse_response_request)

    return router


def _model(agent_id: str, client: ApiClient) -> Model:
    return Model(id=agent_id, created=int(client.created_at.timestamp()))
