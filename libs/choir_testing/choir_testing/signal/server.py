"""HTTP and WebSocket server of the fake, run in the test's own event loop.

Tests enter `run_fake_signal()` and configure an account with `api_url`. As in the original, an envelope goes
to the connections that are open, and to nobody else.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import assert_never

from aiohttp import web
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.signal.accounts import (
    OWN_ID,
    OWN_NUMBER,
    TIMEOUT_S,
    SignalAccounts,
    SignalChat,
    SignalMessage,
)
from choir_testing.signal.faults import (
    FAILED,
    ApiError,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
)
from choir_testing.signal.message_rules import make_message, read_recipient, text_of
from choir_testing.signal.user import FakeSignalUser

MAX_REQUEST_BYTES = 200 * 1024 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeSignal:
    """The fake's interface for tests."""

    def __init__(self) -> None:
        self.port = 0
        self.accounts = SignalAccounts()
        self.secret: str | None = None
        """The token that a proxy before the API would ask for."""
        self._sockets: set[web.WebSocketResponse] = set()
        self._lost: list[JsonObject] = []
        self._queue: asyncio.Queue[JsonObject] = asyncio.Queue()
        self._connected = asyncio.Event()

    @property
    def api_url(self) -> str:
        """The address of the API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def lost(self) -> list[JsonObject]:
        """The envelopes that arrived while no connection was open."""
        return self._lost

    def user(
        self, name: str, number: str | None, *, account_id: str, group: str | None = None
    ) -> FakeSignalUser:
        """Return a person on Signal."""
        if number is not None:
            self.accounts.ids[number] = account_id
        return FakeSignalUser(account_id, number, name, self.accounts, self, group)

    def script(self, *faults: ErrorResponse | DisconnectBefore | DisconnectAfter) -> None:
        """Let the next messages fail, one fault per message."""
        self.accounts.script.extend(faults)

    def push(self, envelope: JsonObject) -> None:
        """Hand an envelope to the open connections."""
        if self._sockets:
            self._queue.put_nowait(envelope)
        else:
            self._lost.append(envelope)

    async def wait_connected(self) -> None:
        """Wait until a connection is open."""
        async with asyncio.timeout(TIMEOUT_S):
            await self._connected.wait()

    async def disconnect(self) -> None:
        """Close all connections."""
        for socket in list(self._sockets):
            await socket.close()

    async def push_queued(self) -> None:
        """Send the envelopes in order until cancelled."""
        while True:
            envelope = await self._queue.get()
            text = json.dumps({"account": OWN_NUMBER, "envelope": envelope})
            for socket in list(self._sockets):
                with contextlib.suppress(ConnectionError):
                    await socket.send_str(text)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Open a WebSocket. Raises ApiError."""
        if request.match_info["number"] != OWN_NUMBER:
            raise ApiError(400, "Specified account does not exist")
        socket = web.WebSocketResponse(timeout=0.2)
        await socket.prepare(request)
        self._sockets.add(socket)
        self._connected.set()
        try:
            async for _ in socket:
                raise ApiError(400, "a client sends nothing")
        finally:
            self._sockets.discard(socket)
            if not self._sockets:
                self._connected.clear()
        return socket

    async def about(self, request: web.Request) -> web.StreamResponse:
        """Return the mode."""
        body = {"versions": ["v1", "v2"], "build": 2, "mode": self.accounts.mode}
        return web.json_response({**body, "version": "0.99", "capabilities": {}})

    async def list_accounts(self, request: web.Request) -> web.StreamResponse:
        """Return the numbers of the accounts."""
        return web.json_response([OWN_NUMBER])

    async def send(self, request: web.Request) -> web.StreamResponse:
        """Send a message, or edit one."""
        body = await _read_json(request)
        fault = self.accounts.script.pop(0) if self.accounts.script else None
        match fault:
            case None | DisconnectAfter():
                pass
            case ErrorResponse(status, text, tokens):
                raise ApiError(status, text, tokens)
            case DisconnectBefore():
                return _cut(request)
            case other:
                assert_never(other)
        recipient = read_recipient(body, "recipients")
        edited = body.pop("edit_timestamp", None)
        message = make_message(body, OWN_ID, self.accounts.new_time())
        if recipient in self.accounts.unregistered:
            raise ApiError(400, FAILED)
        self.accounts.calls.append(body)
        chat = self._chat(recipient)
        if edited is None:
            chat.messages.append(message)
        else:
            _edit(chat, message, edited)
        chat.is_typing = False
        chat.note_change()
        if isinstance(fault, DisconnectAfter):
            return _cut(request)
        result: JsonValue = {"timestamp": str(message.timestamp)}
        if self.accounts.lists_results:
            result = [result]
        return web.json_response(result, status=201)

    async def set_typing(self, request: web.Request) -> web.StreamResponse:
        """Show or hide typing."""
        chat = self._chat(read_recipient(await _read_json(request)))
        chat.is_typing = request.method == "PUT"
        chat.note_change()
        return web.Response(status=204)

    async def react(self, request: web.Request) -> web.StreamResponse:
        """Put an emoji on a message."""
        body = await _read_json(request)
        chat, time = self._chat(read_recipient(body)), body.get("timestamp")
        message = chat.find(time) if isinstance(time, int) else None
        if message is None or body.get("target_author") != message.author:
            raise ApiError(400, "Couldn't process request - there is no such message")
        chat.reactions[message.timestamp] = text_of(body.get("reaction"), "reaction")
        chat.note_change()
        return web.Response(status=204)

    async def search(self, request: web.Request) -> web.StreamResponse:
        """Return whether numbers are registered."""
        numbers = request.query.getall("numbers", [])
        missing = self.accounts.unregistered
        return web.json_response(
            [{"number": it, "registered": it not in missing} for it in numbers]
        )

    async def handle_attachment(self, request: web.Request) -> web.StreamResponse:
        """Return or delete the file of a user."""
        attachment_id = request.match_info["attachment"]
        file = self.accounts.attachments.get(attachment_id)
        if file is None:
            raise ApiError(404, "No attachment with that name found")
        if request.method == "DELETE":
            del self.accounts.attachments[attachment_id]
            return web.Response(status=204)
        return web.Response(body=file.content, content_type=file.mime)

    def checked(self, handler: Handler) -> Handler:
        """Return a handler that asks for the secret and answers errors."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if self.secret and request.headers.get("Authorization") != f"Bearer {self.secret}":
                return web.Response(status=401)
            try:
                if request.match_info.get("number", OWN_NUMBER) != OWN_NUMBER:
                    raise ApiError(400, "Specified account does not exist")
                return await handler(request)
            except ApiError as error:
                return web.json_response(error.as_json(OWN_NUMBER), status=error.status)

        return handle

    def _chat(self, recipient: str) -> SignalChat:
        return self.accounts.chat(self.accounts.ids.get(recipient, recipient))


def _edit(chat: SignalChat, message: SignalMessage, edited: JsonValue) -> None:
    target = chat.find(edited) if isinstance(edited, int) else None
    if target is None or target.author != message.author:
        # The original does not check it; receivers drop such an edit.
        raise ApiError(400, "there is no such message of this account")
    target.text, target.styles = message.text, message.styles
    target.revisions.append(message.timestamp)


async def _read_json(request: web.Request) -> JsonObject:
    if request.content_type != "application/json":
        raise ApiError(400, "Couldn't process request - invalid request")
    try:
        body = await request.json()
    except ValueError as error:
        raise ApiError(400, "Couldn't process request - invalid request") from error
    if not isinstance(body, dict):
        raise ApiError(400, "Couldn't process request - invalid request")
    return body


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.asynccontextmanager
async def run_fake_signal() -> AsyncIterator[FakeSignal]:
    """Run a fake on a free loopback port until the block ends."""
    fake = FakeSignal()
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    routes: list[tuple[str, str, Handler]] = [
        ("GET", "/v1/about", fake.about),
        ("GET", "/v1/accounts", fake.list_accounts),
        ("GET", "/v1/receive/{number}", fake.receive),
        ("POST", "/v2/send", fake.send),
        ("PUT", "/v1/typing-indicator/{number}", fake.set_typing),
        ("DELETE", "/v1/typing-indicator/{number}", fake.set_typing),
        ("POST", "/v1/reactions/{number}", fake.react),
        ("GET", "/v1/search/{number}", fake.search),
        ("GET", "/v1/attachments/{attachment}", fake.handle_attachment),
        ("DELETE", "/v1/attachments/{attachment}", fake.handle_attachment),
    ]
    for method, path, handler in routes:
        app.router.add_route(method, path, fake.checked(handler))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.port = runner.addresses[0][1]
    pushing = asyncio.create_task(fake.push_queued())
    try:
        yield fake
    finally:
        pushing.cancel()
        await asyncio.wait([pushing])
        await fake.disconnect()
        await runner.cleanup()
