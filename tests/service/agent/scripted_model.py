"""A model server whose every answer is written by the test: also those no sane server would send."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from choir_common.http.listen import bind_tcp, serve
from choir_local.rehearsal.turn import ChatRequest, Lane, RehearsalTurn, read_turn


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: where its conversation stands, and the how manyeth of its lane it is (from 1)."""

    turn: RehearsalTurn
    number: int
    body: Mapping[str, object] = field(default_factory=dict)

    @property
    def lane(self) -> Lane | None:
        return self.turn.lane


Script = Callable[[Asked], Response]


def says(text: str) -> Response:
    """Answer with text."""
    return _completion({"role": "assistant", "content": text}, "stop")


def calls(*wanted: tuple[str, object], ids: Sequence[str] = ()) -> Response:
    """Answer with tool calls; arguments that are text go as they are, anything else as JSON."""
    rendered = [
        {
            "id": ids[n] if n < len(ids) else f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": _text(arguments)},
        }
        for n, (name, arguments) in enumerate(wanted)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": rendered}
    return _completion(message, "tool_calls")


def document(content: object) -> Response:
    """Answer with any JSON."""
    return Response(orjson.dumps(content), media_type="application/json")


def endless(part: bytes, pause_s: float) -> Response:
    """Answer with the beginning of a document that never ends."""

    async def parts() -> AsyncIterator[bytes]:
        yield b'{"choices":[{"message":{"content":"'
        while True:
            yield part
            await asyncio.sleep(pause_s)

    return StreamingResponse(parts(), media_type="application/json")


def _text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()


def _completion(message: object, finish: str) -> Response:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    return document({"id": "x", "model": "scripted", "choices": [choice], "usage": usage})


@contextlib.asynccontextmanager
async def run_scripted(script: Script) -> AsyncIterator[str]:
    """Serve `script` while the block runs; yields the address an agent is given."""
    asked: dict[Lane | None, int] = {}

    async def complete(request: Request) -> Response:
        body = await request.body()
        turn = read_turn(ChatRequest.model_validate_json(body))
        asked[turn.lane] = asked.get(turn.lane, 0) + 1
        return script(Asked(turn, asked[turn.lane], orjson.loads(body)))

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    listener = bind_tcp("127.0.0.1", 0, "port")
    stop = asyncio.Event()
    server = asyncio.create_task(serve(app, [listener], stop))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        stop.set()
        await server
