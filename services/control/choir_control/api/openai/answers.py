"""Requests that send a message to an agent, and its answer at once or as a stream.

The same for both APIs; `AnswerRequest` and `AnswerWriter` are what differs.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.http.responses import EVENT_STREAM_HEADERS, KEEPALIVE, KEEPALIVE_S
from choir_common.ids import new_id
from choir_control.api.openai.authentication import ConversationResolver
from choir_control.api.openai.chat_request import ChatRequest, UserMessage
from choir_control.api.openai.chat_response import Calls, CompletionWriter
from choir_control.api.openai.client_tasks import answer_task
from choir_control.api.openai.response_events import ResponseWriter
from choir_control.api.openai.response_request import ResponseRequest
from choir_control.api.openai.tool_calls import ToolCallExchange
from choir_control.api.openai.turns import Turn, TurnService
from choir_control.api_clients.service import ApiClientService
from choir_control.configuration.api_clients import ApiClient
from choir_control.conversations.inbox.answer_store import TokenUsage

MAX_KEY = 255
THREAD_BYTES = 200_000
"""Larger bodies are parsed in a thread."""
CLIENT_CLOSED = 499
TOOLS_NOTICE = "tools-ignored; the client has no scope tools, or the API does not offer it"
"""The header of an answer to a request whose tools do not count (decision 103)."""


AnswerRequest = ChatRequest | ResponseRequest
NO_CALLS: Calls = {}


class AnswerWriter(Protocol):
    """Writes the answer to one request in the shape of an API."""

    def complete(self, text: str, usage: TokenUsage | None) -> dict[str, Any]: ...

    def begin(self) -> bytes: ...

    def piece(self, text: str) -> bytes: ...

    def end(self, usage: TokenUsage | None) -> bytes: ...

    def fail(self, error: ChoirError) -> bytes: ...


def make_writer(request: AnswerRequest, message_id: str) -> AnswerWriter:
    """Return the writer of the answer to a request."""
    created = int(time.time())
    if isinstance(request, ResponseRequest):
        previous = request.previous_response_id
        return ResponseWriter(message_id, created, request.model, previous=previous)
    usage = request.includes_usage
    return CompletionWriter(message_id, created, request.model, shows_usage=usage)


class AnswerHandler:
    """Handler of the requests."""

    def __init__(
        self,
        turns: TurnService,
        clients: ApiClientService,
        conversations: ConversationResolver,
        *,
        calls: ToolCallExchange,
    ) -> None:
        self._turns = turns
        self._clients = clients
        self._conversations = conversations
        self._calls = calls

    async def respond(self, request: Request, parse: Callable[[bytes], AnswerRequest]) -> Response:
        """Send the message of a request, and return or stream its answer. Raises the errors of a turn."""
        client: ApiClient = request.state.client
        with contextlib.ExitStack() as admission:
            # before the body: a client cannot fill the memory with bodies
            admission.enter_context(self._clients.admit(client))
            body = await request.body()
            chat = await _parse(parse, body)
            dm = await self._find_conversation(client, chat, request)
            has_calls = self._calls.may_offer(chat, dm)
            results = chat.read_tool_results() if isinstance(chat, ChatRequest) else ()
            if has_calls and results:
                turn = await self._calls.resume(dm, chat.model, results)
            else:
                message = await asyncio.to_thread(chat.read_message)
                task = answer_task(message.text, instructions=chat.instructions)
                if task is not None:
                    return _respond_at_once(chat, task)
                self._calls.offer(chat, dm)
                turn = await self._send(request, dm, message, body)
            writer = make_writer(chat, turn.accepted.inbox_id or new_id("command"))
            pieces = self._follow(turn, client, has_calls=has_calls)
            if not chat.stream:
                answer = await self._complete(request, turn, writer, pieces)
            else:
                events = self._stream(chat, turn, writer, pieces)
                answer = _StreamedAnswer(events, admission.pop_all())
            notice = TOOLS_NOTICE if chat.has_tools and not has_calls else ""
            return _with_headers(answer, turn, notice)

    async def _send(self, request: Request, dm: str, message: UserMessage, body: bytes) -> Turn:
        key = await self._turns.keys.key_of(
            dm, body, own_key=_own_key(request), is_retry=_is_retry(request)
        )
        return await self._turns.send(dm, message, key)

    async def _follow(
        self, turn: Turn, client: ApiClient, *, has_calls: bool
    ) -> AsyncGenerator[str | Calls, None]:
        """Yield the pieces of the answer; it ends before with the calls of the client's tools."""
        async with contextlib.aclosing(self._turns.follow(turn, client)) as pieces:
            async for piece in pieces:
                yield piece
                if has_calls and (calls := await self._calls.take(turn)):
                    yield calls
                    return

    async def _find_conversation(
        self, client: ApiClient, chat: AnswerRequest, request: Request
    ) -> str:
        """Return the conversation; that of an earlier response must be the client's, too."""
        self._conversations.require_scope(client, "chat")
        dm = self._conversations.find(client, chat.model, request)
        if chat.previous_message is None:
            return dm
        earlier = await self._turns.answers.find_dm(chat.previous_message)
        if earlier is None or not self._conversations.may_use(client, chat.model, earlier):
            raise InvalidRequest(
                "previous_response_id: there is no such response of this agent for this client."
            )
        if self._conversations.names_another(request, earlier):
            raise InvalidRequest(
                "previous_response_id: that response is of another conversation than "
                "X-Choir-Conversation names."
            )
        return earlier

    async def _complete(
        self,
        request: Request,
        turn: Turn,
        writer: AnswerWriter,
        pieces: AsyncGenerator[str | Calls, None],
    ) -> Response:
        text, calls = "", NO_CALLS
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if not isinstance(piece, str):
                    calls = piece
                    continue
                text += piece
                if not piece and await request.is_disconnected():
                    # the agent goes on; a repeated request gets its answer
                    return Response(status_code=CLIENT_CLOSED)
        usage = await self._turns.answers.read_usage(turn.accepted.inbox_id)
        if calls and isinstance(writer, CompletionWriter):
            return JSONResponse(writer.complete_with_calls(text, calls, usage))
        return JSONResponse(writer.complete(text, usage))

    async def _stream(
        self,
        chat: AnswerRequest,
        turn: Turn,
        writer: AnswerWriter,
        pieces: AsyncGenerator[str | Calls, None],
    ) -> AsyncGenerator[bytes, None]:
        yield writer.begin()
        sent_at, calls = time.monotonic(), NO_CALLS
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    if not isinstance(piece, str):
                        calls = piece
                    elif piece or time.monotonic() - sent_at > KEEPALIVE_S:
                        sent_at = time.monotonic()
                        yield writer.piece(piece) if piece else KEEPALIVE
            usage = None
            if chat.includes_usage:  # a query of the ledger, which most streams do not need
                usage = await self._turns.answers.read_usage(turn.accepted.inbox_id)
            if calls and isinstance(writer, CompletionWriter):
                yield writer.end_with_calls(calls, usage)
            else:
                yield writer.end(usage)
        except ChoirError as error:
            # the head was sent with status 200; OpenAI reports such errors as an event, too
            yield writer.fail(error)


async def _parse(parse: Callable[[bytes], AnswerRequest], body: bytes) -> AnswerRequest:
    return parse(body) if len(body) < THREAD_BYTES else await asyncio.to_thread(parse, body)


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


def _respond_at_once(chat: AnswerRequest, text: str) -> Response:
    writer = make_writer(chat, new_id("task"))
    if not chat.stream:
        return JSONResponse(writer.complete(text, None))
    content = b"".join((writer.begin(), writer.piece(text), writer.end(None)))
    return Response(content, media_type="text/event-stream")


def _with_headers(response: Response, turn: Turn, notice: str) -> Response:
    """Return the response with the ids by which the message is found in Choir, and a notice about tools."""
    response.headers["X-Request-Id"] = turn.accepted.inbox_id or "command"
    response.headers["X-Choir-Conversation"] = turn.dm
    if notice:
        response.headers["X-Choir-Notice"] = notice
    return response


def _own_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MAX_KEY:
        raise InvalidRequest(f"Idempotency-Key must have 1 to {MAX_KEY} characters.")
    return key


def _is_retry(request: Request) -> bool:
    """Return whether OpenAI's SDK says that it repeats a request."""
    return request.headers.get("x-stainless-retry-count", "0") not in ("", "0")
