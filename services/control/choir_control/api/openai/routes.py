"""The routes of the OpenAI-compatible API."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Path, Request
from fastapi.responses import Response

from choir_common.http.middleware import LargeBodyRoute
from choir_common.http.routers import ServiceRouter
from choir_common.speech.transcription import MAX_AUDIO_BYTES
from choir_control.api.openai.answers import AnswerHandler
from choir_control.api.openai.authentication import ClientAuthentication
from choir_control.api.openai.chat_request import parse_chat_request
from choir_control.api.openai.chat_response import Model, ModelList
from choir_control.api.openai.embeddings import MAX_MODEL_CHARS, EmbeddingHandler
from choir_control.api.openai.error_responses import OpenAIErrorMiddleware
from choir_control.api.openai.models import ModelRegistry
from choir_control.api.openai.response_request import parse_response_request
from choir_control.api.openai.transcriptions import TranscriptionHandler
from choir_control.api_clients.service import API_PATH, ApiClientService

MAX_BODY = 30_000_000
"""Bytes, with files in base64 and the whole history."""
MAX_EMBEDDING_BODY = 4_000_000
MAX_FORM = MAX_AUDIO_BYTES + 100_000
"""Bytes of a form with an audio file."""
BODIES = (
    LargeBodyRoute("POST", rf"{API_PATH}/(chat/completions|responses)", MAX_BODY, 60.0),
    LargeBodyRoute("POST", rf"{API_PATH}/embeddings", MAX_EMBEDDING_BODY, 60.0),
    LargeBodyRoute("POST", rf"{API_PATH}/audio/transcriptions", MAX_FORM, 60.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIHandlers:
    """The handlers of the requests."""

    answers: AnswerHandler
    models: ModelRegistry
    embeddings: EmbeddingHandler
    transcriptions: TranscriptionHandler


class OpenAIEndpoints:
    """The endpoints for clients, with their access check, and errors in OpenAI's shape."""

    def __init__(self, clients: ApiClientService, handlers: OpenAIHandlers) -> None:
        self._authentication = ClientAuthentication(clients)
        self._router = _make_router(handlers)

    def add_to(self, app: FastAPI) -> None:
        """Add the endpoints to an application."""
        for_clients = [Depends(self._authentication)]
        app.include_router(self._router, prefix=API_PATH, dependencies=for_clients)
        app.add_middleware(OpenAIErrorMiddleware)


def _make_router(handlers: OpenAIHandlers) -> APIRouter:
    # OpenAI's documentation describes the shapes
    router = ServiceRouter(include_in_schema=False)

    @router.get("/models")
    async def list_models(request: Request) -> ModelList:
        """List the agents of the client, and the other models of its scopes."""
        return ModelList(data=await handlers.models.list(request.state.client))

    @router.get("/models/{name:path}")
    async def show_model(
        name: Annotated[str, Path(max_length=MAX_MODEL_CHARS)], request: Request
    ) -> Model:
        """Show one of them."""
        return await handlers.models.show(request.state.client, name)

    @router.post("/chat/completions", response_class=Response)
    async def create_completion(request: Request) -> Response:
        """Send the last message of the user to an agent, and return or stream its answer."""
        return await handlers.answers.respond(request, parse_chat_request)

    @router.post("/responses", response_class=Response)
    async def create_response(request: Request) -> Response:
        """Do the same as `/chat/completions` in the shape of OpenAI's newer API."""
        return await handlers.answers.respond(request, parse_response_request)

    @router.post("/embeddings", response_class=Response)
    async def create_embeddings(request: Request) -> Response:
        """Return the vectors of texts."""
        return await handlers.embeddings.respond(request)

    @router.post("/audio/transcriptions", response_class=Response)
    async def create_transcription(request: Request) -> Response:
        """Return the words of an audio file."""
        return await handlers.transcriptions.respond(request)

    return router
