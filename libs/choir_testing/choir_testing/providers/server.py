"""HTTP server of a fake provider, run in the test's own event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TypeVar

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from choir_testing.providers.provider import (
    Answer,
    Disconnect,
    ErrorFault,
    FakeProvider,
    Hang,
    RecordedRequest,
)

JSON_TYPE = "application/json"

AnyProvider = TypeVar("AnyProvider", bound=FakeProvider)


class _Connections:
    """Open connections by the client's address, so that a response can abort its own."""

    def __init__(self) -> None:
        self.transports: dict[tuple[str, int], asyncio.Transport] = {}

    def protocol(self) -> type[H11Protocol]:
        """Return the protocol class that records its connections here."""
        transports = self.transports

        class RecordingProtocol(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                if self.client is not None:
                    transports[self.client] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                if self.client is not None:
                    transports.pop(self.client, None)
                super().connection_lost(exc)

        return RecordingProtocol

    def abort(self, scope: Scope) -> None:
        """Close the connection of a request at once."""
        self.transports[tuple(scope["client"])].abort()

    def abort_all(self) -> None:
        """Close all connections at once."""
        for transport in list(self.transports.values()):
            transport.abort()


class _ScriptedResponse(Response):
    """A response in parts, with pauses, that may end in an aborted connection or never begin."""

    def __init__(
        self,
        provider: FakeProvider,
        connections: _Connections,
        *,
        parts: Sequence[bytes] = (),
        headers: Mapping[str, str] | None = None,
        answer: Answer | None = None,
    ) -> None:
        super().__init__()
        # Response would add `content-length: 0`.
        self.raw_headers = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        self._provider = provider
        self._connections = connections
        self._parts = parts
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts until the client leaves; without an answer, wait until it does."""
        sending = asyncio.create_task(self._send(scope, send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self._provider.client_left.set()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, scope: Scope, send: Send) -> None:
        if self._answer is None:
            await asyncio.Event().wait()
            return
        abort_after = self._answer.abort_after
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        for number, part in enumerate(self._parts):
            if number == abort_after:
                break
            if number == self._answer.stall_after:
                await asyncio.Event().wait()
            await asyncio.sleep(self._answer.pause_s)
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if abort_after is not None:
            self._connections.abort(scope)
            await asyncio.sleep(0)
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _AbortedResponse(Response):
    """No response: the connection is closed."""

    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Abort the connection and wait until uvicorn knows it."""
        self._connections.abort(scope)
        await _wait_for_disconnect(receive)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _ProviderApp:
    """The routes of a provider."""

    def __init__(self, provider: FakeProvider, connections: _Connections) -> None:
        self._provider = provider
        self._connections = connections

    async def respond(self, request: Request) -> Response:
        """Take the provider's next step for a request."""
        raw = await request.body()
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError:
            body = {}
        recorded = RecordedRequest(request.url.path, dict(request.headers), body, raw)
        match self._provider.take_step(recorded):
            case Disconnect():
                return _AbortedResponse(self._connections)
            case Hang():
                return _ScriptedResponse(self._provider, self._connections)
            case ErrorFault() as fault:
                error = self._provider.render_error(fault, recorded)
                content = orjson.dumps(error.body)
                return Response(content, error.status, error.headers, JSON_TYPE)
            case Answer() as answer:
                return self._answer(answer, recorded)

    def _answer(self, answer: Answer, request: RecordedRequest) -> Response:
        provider = self._provider
        if provider.wants_stream(request):
            parts = provider.render_stream(answer, request)
            headers = {"content-type": provider.stream_type}
        else:
            body = orjson.dumps(provider.render(answer, request))
            half = len(body) // 2
            parts = [body[:half], body[half:]]
            headers = {"content-type": JSON_TYPE, "content-length": str(len(body))}
        return _ScriptedResponse(
            provider, self._connections, parts=parts, headers=headers, answer=answer
        )


@contextlib.asynccontextmanager
async def run_provider(provider: AnyProvider) -> AsyncIterator[AnyProvider]:
    """Serve a provider on a free loopback port until the block ends."""
    connections = _Connections()
    app = _ProviderApp(provider, connections)
    routes = [
        *(Route(provider.base_path + it, app.respond, methods=["POST"]) for it in provider.paths),
        *provider.other_routes(),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes),
        log_config=None,
        log_level=100,  # an aborted connection is not worth a log line
        access_log=False,
        lifespan="off",
        ws="none",
    )
    config.load()
    protocol, state = connections.protocol(), ServerState()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Inherited by accepted sockets; otherwise each response waits 40 ms for the client's TCP
        # acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        provider.origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # Not through uvicorn.Server, which takes 0.2 s to stop.
        server = await asyncio.get_running_loop().create_server(
            lambda: protocol(config=config, server_state=state, app_state={}), sock=listener
        )
        try:
            yield provider
        finally:
            server.close()
            connections.abort_all()
            await asyncio.gather(*state.tasks, return_exceptions=True)
