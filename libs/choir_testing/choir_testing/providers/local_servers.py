"""Fakes of LM Studio, llama.cpp's server and vLLM: their lists of models, and a plain chat completion.

Each answers the documented paths only, and 404 for all others, so that a client cannot take one for another.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from choir_common.http.listen import bind_tcp, serve
from choir_common.wire.model import JsonObject


class FakeLocalServer:
    """A server with fixed lists, by path."""

    def __init__(self, lists: dict[str, JsonObject]) -> None:
        self.lists = lists
        self.address = ""
        """Set while it runs."""
        self.paths: list[str] = []
        """The paths that were asked for."""
        self.completions: list[JsonObject] = []
        """The bodies of the requests for completions."""

    async def respond(self, request: Request) -> JSONResponse:
        """Answer a known path; every model says the same."""
        path = request.url.path
        self.paths.append(path)
        if path == "/v1/chat/completions" and request.method == "POST":
            self.completions.append(await request.json())
            message = {"role": "assistant", "content": "All is well."}
            usage = {"prompt_tokens": 1_000, "completion_tokens": 5}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return JSONResponse({"choices": [choice], "model": "local", "usage": usage})
        if path not in self.lists or request.method != "GET":
            return JSONResponse({"error": {"message": "not found", "code": 404}}, 404)
        return JSONResponse(self.lists[path])


def fake_lmstudio(
    model: str, *, loaded: int | None, longest: int = 131_072, calls_tools: bool = True
) -> FakeLocalServer:
    """Return an LM Studio with one language model, and an embedding model before it."""
    entry: JsonObject = {
        "id": model,
        "object": "model",
        "type": "llm",
        "state": "loaded" if loaded else "not-loaded",
        "max_context_length": longest,
        "capabilities": ["tool_use"] if calls_tools else [],
        **({"loaded_context_length": loaded} if loaded else {}),
    }
    embedding: JsonObject = {"id": "embed", "object": "model", "type": "embeddings"}
    plain: JsonObject = {"object": "list", "data": [{"id": "embed"}, {"id": model}]}
    every: JsonObject = {"object": "list", "data": [embedding, entry]}
    return FakeLocalServer({"/api/v0/models": every, "/v1/models": plain})


def fake_llamacpp(model: str, *, slot: int, trained: int = 131_072) -> FakeLocalServer:
    """Return a llama.cpp server whose slots have a context of `slot` tokens."""
    properties: JsonObject = {
        "default_generation_settings": {"n_ctx": slot, "speculative": False},
        "total_slots": 4,
        "model_path": f"/models/{model}",
        "chat_template_caps": {"supports_tools": True},
    }
    entry: JsonObject = {"id": model, "owned_by": "llamacpp", "meta": {"n_ctx_train": trained}}
    return FakeLocalServer({"/props": properties, "/v1/models": {"data": [entry]}})


def fake_vllm(model: str, *, longest: int) -> FakeLocalServer:
    """Return a vLLM that was started with this `--max-model-len`."""
    entry: JsonObject = {"id": model, "owned_by": "vllm", "max_model_len": longest}
    return FakeLocalServer({"/v1/models": {"object": "list", "data": [entry]}})


@contextlib.asynccontextmanager
async def run_local_server(server: FakeLocalServer) -> AsyncIterator[FakeLocalServer]:
    """Serve on a free loopback port until the block ends."""
    app = Starlette(routes=[Route("/{path:path}", server.respond, methods=["GET", "POST"])])
    listener = bind_tcp("127.0.0.1", 0, "port")
    server.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(app, [listener], stop))
    try:
        yield server
    finally:
        stop.set()
        await serving
