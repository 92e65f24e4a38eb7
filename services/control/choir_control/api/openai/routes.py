"""The routes of the OpenAI-compatible API: `/chat/completions` and `/models`."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Path, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from choir_common.errors import ChoirError, InvalidRequest, NotFound
from choir_common.http.responses import EVENT_STREAM_HEADERS, KEEPALIVE, KEEPALIVE_S
from choir_common.http.routers import ServiceRouter
from choir_common.http.service_app import LargeBodyRoute
from choir_common.ids import new_id
from choir_control.api.openai.authentication import ClientAuthentication, ConversationResolver
from choir_control.api.openai.chat_request import ChatRequest, parse_chat_request, read_user_message
from choir_control.api.openai.chat_response import (
    DONE,
    CompletionWriter,
    Model,
    ModelList,
    error_event,
)
from choir_control.api.openai.client_tasks import answer_task
from choir_control.api.openai.error_responses import OpenAIErrorMiddleware
from choir_control.api.openai.turns import Turn, TurnService
from choir_control.api_clients.service import API_PATH, ApiClientService
from choir_control.configuration.api_clients import ApiClient

MAX_BODY = 30_000_000
"""Bytes, with files in base64 and the whole history."""
BODIES = LargeBodyRoute("POST", rf"{API_PATH}/chat/completions", MAX_BODY, 60.0)
MAX_KEY = 255
THREAD_BYTES = 200_000
"""Larger bodies are parsed in a thread."""
CLIENT_CLOSED = 499


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
    chat = _ChatHandler(turns, clients, conversations)

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
        return await chat.respond(request)

    return router


class _ChatHandler:
    def __init__(
        self, turns: TurnService, clients: ApiClientService, conversations: ConversationResolver
    ) -> None:
        self._turns = turns
        self._clients = clients
        self._conversations = conversations

    async def respond(self, request: Request) -> Response:
        client: ApiClient = request.state.client
        with contextlib.ExitStack() as admission:
            # before the body: a client cannot fill the memory with bodies
            admission.enter_context(self._clients.admit(client))
            body = await request.body()
            chat = await _parse(body)
            self._conversations.require_scope(client, "chat")
            dm = self._conversations.find(client, chat.model, request)
            message = await asyncio.to_thread(read_user_message, chat)
            task = answer_task(message.text)
            if task is not None:
                return _respond_at_once(chat, task)
            key = await self._turns.keys.key_of(
                dm, body, own_key=_own_key(request), is_retry=_is_retry(request)
            )
            turn = await self._turns.send(dm, message, key)
            writer = CompletionWriter(_id_of(turn), int(time.time()), chat.model)
            pieces = self._turns.follow(turn, client)
            if not chat.stream:
                return await self._complete(request, turn, writer, pieces)
            events = self._stream(turn, chat, writer, pieces)
            return _with_names(_StreamedAnswer(events, admission.pop_all()), turn)

    async def _complete(
        self,
        request: Request,
        turn: Turn,
        writer: CompletionWriter,
        pieces: AsyncGenerator[str, None],
    ) -> Response:
        text = ""
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                text += piece
                if not piece and await request.is_disconnected():
                    # the agent goes on; a repeated request gets its answer
                    return Response(status_code=CLIENT_CLOSED)
        usage = await self._turns.lookup.read_usage(turn.accepted.inbox_id)
        completion = writer.complete(text, usage)
        return _with_names(JSONResponse(completion.model_dump(mode="json")), turn)

    async def _stream(
        self,
        turn: Turn,
        chat: ChatRequest,
        writer: CompletionWriter,
        pieces: AsyncGenerator[str, None],
    ) -> AsyncGenerator[bytes, None]:
        yield writer.begin()
        sent_at = time.monotonic()
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    if piece or time.monotonic() - sent_at > KEEPALIVE_S:
                        sent_at = time.monotonic()
                        yield writer.piece(piece) if piece else KEEPALIVE
            yield writer.end()
            if chat.includes_usage:
                yield writer.usage(await self._turns.lookup.read_usage(turn.accepted.inbox_id))
        except ChoirError as error:
            # the head was sent with status 200; OpenAI reports such errors as an event, too
            yield error_event(error)
            return
        yield DONE


async def _parse(body: bytes) -> ChatRequest:
    if len(body) < THREAD_BYTES:
        return parse_chat_request(body)
    return await asyncio.to_thread(parse_chat_request, body)


class _StreamedAnswer(StreamingResponse):
    """An answer as an event stream, which counts as open until it was sent."""

    def __init__(
        self, events: AsyncGenerator[bytes, None], admission: contextlib.ExitStack
    ) -> None:
        super().__init__(events, media_type="text/event-stream", headers=EVENT_STREAM_HEADERS)
        self._events = events
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer. The client may disconnect before the first event, so the cleanup is here."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._admission.close()
            await self._events.aclose()


def _respond_at_once(chat: ChatRequest, text: str) -> Response:
    writer = CompletionWriter(f"chatcmpl-{new_id('task')}", int(time.time()), chat.model)
    if not chat.stream:
        return JSONResponse(writer.complete(text, None).model_dump(mode="json"))
    content = b"".join((writer.begin(), writer.piece(text), writer.end(), DONE))
    return Response(content, media_type="text/event-stream")


def _with_names(response: JSONResponse | StreamingResponse, turn: Turn) -> Response:
    """Return the response with the ids by which the message and its conversation are found in Choir."""
    response.headers["X-Request-Id"] = turn.accepted.inbox_id or "command"
    response.headers["X-Choir-Conversation"] = turn.dm
    return response


def _model(agent_id: str, client: ApiClient) -> Model:
    return Model(id=agent_id, created=int(client.created_at.timestamp()))


def _id_of(turn: Turn) -> str:
    return f"chatcmpl-{turn.accepted.inbox_id or new_id('command')}"


def _own_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MAX_KEY:
        raise InvalidRequest(f"Idempotency-Key must have 1 to {MAX_KEY} characters.")
    return key


def _is_retry(request: Request) -> bool:
    """Return whether OpenAI's SDK says that it repeats a request."""
    return request.headers.get("x-stainless-retry-count", "0") not in ("", "0")
