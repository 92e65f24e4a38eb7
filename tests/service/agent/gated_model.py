"""A rehearsal model that keeps chosen requests waiting until the test lets them be answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.http.listen import bind_tcp, serve
from choir_local.rehearsal.app import RehearsalModel
from choir_local.rehearsal.score import Score
from choir_local.rehearsal.turn import ChatRequest, Lane, RehearsalTurn, read_turn


@dataclass
class Gate:
    """Stops the requests of one lane whose last user message contains a text."""

    lane: Lane
    contains: str = ""
    _requests: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    async def reached(self, requests: int = 1) -> None:
        """Wait until so many more requests have come to the gate."""
        async with asyncio.timeout(60):
            for _ in range(requests):
                await self._requests.acquire()

    def open(self) -> None:
        """Let every request through, now and from now on."""
        self._open.set()

    async def pass_through(self, turn: RehearsalTurn) -> None:
        """Wait for `open` if this request is one that the gate stops."""
        if turn.lane == self.lane and self.contains in turn.user_text:
            self._requests.release()
            await self._open.wait()


@contextlib.asynccontextmanager
async def run_gated(score: Score, gate: Gate) -> AsyncIterator[str]:
    """Serve `score` behind `gate` while the block runs; yields the address an agent is given."""
    model = RehearsalModel(score)

    async def complete(request: Request) -> Response:
        await gate.pass_through(read_turn(ChatRequest.model_validate_json(await request.body())))
        return await model.complete(request)

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    listener = bind_tcp("127.0.0.1", 0, "port")
    stop = asyncio.Event()
    server = asyncio.create_task(serve(app, [listener], stop))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        gate.open()
        stop.set()
        await server
