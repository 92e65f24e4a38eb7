"""HTTP routes of the rehearsal model.

The state consists of counters and of how often each fault was already returned for the same request.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_messages
from choir_local.rehearsal.answers import Fault, ScriptedAnswer, choose_answer, load_greeting
from choir_local.rehearsal.completion import make_reply, render_document, render_stream
from choir_local.rehearsal.embedding import DIMENSIONS, embed, to_base64
from choir_local.rehearsal.prefix import PrefixMeter
from choir_local.rehearsal.score import ErrorStep, MalformedStep, Score, ScriptedCall
from choir_local.rehearsal.turn import ChatRequest, read_turn

MODEL = "rehearsal"
EMBEDDING_MODEL = "rehearsal-embedding"
BODY_LIMIT = 32 * 1024 * 1024  # bytes; a conversation of 10,000 events fits
REMEMBERED_FAULTS = 10_000


class EmbeddingRequest(BaseModel):
    """The body of `POST /v1/embeddings`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    input: str | tuple[str, ...]
    encoding_format: str = "float"
    dimensions: int = Field(default=DIMENSIONS, ge=1, le=16_000)


@dataclass(slots=True)
class RequestCounters:
    """Request counters since the start."""

    requests: int = 0
    chat: int = 0
    tool_calls: int = 0
    faults: int = 0
    embeddings: int = 0
    embedded_texts: int = 0


@dataclass(slots=True)
class PromptSizes:
    """Sizes of one lane's prompts, in bytes."""

    requests: int = 0
    prompt_bytes: int = 0
    prefix_bytes: int = 0
    """Bytes that equal the beginning of an earlier prompt."""

    def add(self, prompt: int, prefix: int) -> None:
        """Add one prompt."""
        self.requests += 1
        self.prompt_bytes += prompt
        self.prefix_bytes += prefix


class FaultCounter:
    """Counter of the faults returned for each of the newest requests."""

    def __init__(self) -> None:
        self._served: OrderedDict[bytes, int] = OrderedDict()

    def take(self, messages: bytes, faults: tuple[Fault, ...]) -> Fault | None:
        """Return the next fault for a request with these messages, or None."""
        if not faults:
            return None
        key = hashlib.blake2b(messages, digest_size=16).digest()
        served = self._served.pop(key, 0)
        self._served[key] = served + 1
        if len(self._served) > REMEMBERED_FAULTS:
            self._served.popitem(last=False)
        for fault in faults:
            if fault.times == 0 or served < fault.times:
                return fault
            served -= fault.times
        return None


def make_rehearsal_app(score: Score | None = None) -> Starlette:
    """Return the application for `score`; without one it greets and reports results."""
    model = RehearsalModel(score or Score())
    return Starlette(
        routes=[
            Route("/v1/chat/completions", model.complete, methods=["POST"]),
            Route("/v1/embeddings", model.embed, methods=["POST"]),
            Route("/v1/models", model.list_models),
            Route("/v1/stats", model.get_stats),
            Route("/livez", model.get_livez),
        ],
    )


class RehearsalModel:
    """Request handlers for one score."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self._greeting = load_greeting()
        self._counts = RequestCounters()
        self._served = FaultCounter()
        self._prefixes = PrefixMeter()
        self._lanes: dict[str, PromptSizes] = {}
        self._last_request = orjson.Fragment(b"null")

    async def complete(self, request: Request) -> Response:
        """Answer a chat request (POST /v1/chat/completions)."""
        self._counts.requests += 1
        self._counts.chat += 1
        body = await _read_body(request)
        if body is None:
            return _error(413, f"The body is larger than {BODY_LIMIT} bytes.")
        try:
            request_body = ChatRequest.model_validate_json(body)
        except ValidationError as error:
            return _error(400, _faults_text(error))
        self._last_request = orjson.Fragment(body)
        if not request_body.messages:
            return _error(400, "messages: at least one message is needed")
        turn = read_turn(request_body)
        answer = choose_answer(turn, self._score, self._greeting)
        prompt, cached = self._prefixes.measure(body)
        self._lanes.setdefault(turn.lane or "other", PromptSizes()).add(prompt, cached)
        if answer.delay_ms:
            await asyncio.sleep(answer.delay_ms / 1000)
        if answer.hang:
            return await _hang(request)
        fault = self._served.take(body, answer.faults)
        if fault is not None:
            self._counts.faults += 1
            return _fail(fault, request_body, answer)
        self._counts.tool_calls += len(answer.calls)
        return _answer(request_body, answer, prompt, cached)

    async def embed(self, request: Request) -> Response:
        """Return unit vectors (POST /v1/embeddings)."""
        self._counts.requests += 1
        self._counts.embeddings += 1
        body = await _read_body(request)
        if body is None:
            return _error(413, f"The body is larger than {BODY_LIMIT} bytes.")
        try:
            request_body = EmbeddingRequest.model_validate_json(body)
        except ValidationError as error:
            return _error(400, _faults_text(error))
        texts = (request_body.input,) if isinstance(request_body.input, str) else request_body.input
        self._counts.embedded_texts += len(texts)
        vectors = (embed(text, request_body.dimensions) for text in texts)
        as_text = request_body.encoding_format == "base64"
        data = [
            {"object": "embedding", "index": i, "embedding": to_base64(v) if as_text else v}
            for i, v in enumerate(vectors)
        ]
        tokens = sum(len(text) for text in texts) // 4 + 1
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return _json({"object": "list", "data": data, "model": request_body.model, "usage": usage})

    async def list_models(self, _: Request) -> Response:
        """List the two models (GET /v1/models)."""
        names = (MODEL, EMBEDDING_MODEL)
        data = [{"id": n, "object": "model", "created": 0, "owned_by": "choir"} for n in names]
        return _json({"object": "list", "data": data})

    async def get_stats(self, _: Request) -> Response:
        """Return the counters and the last chat request, unchanged (GET /v1/stats)."""
        lanes = {lane: asdict(prompts) for lane, prompts in self._lanes.items()}
        counts = asdict(self._counts)
        return _json({**counts, "lanes": lanes, "last_request": self._last_request})

    async def get_livez(self, _: Request) -> Response:
        """Report that the process runs (GET /livez)."""
        return _json({"status": "ok"})


async def _hang(request: Request) -> Response:
    """Send nothing until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response(status_code=499)


def _answer(
    request_body: ChatRequest, answer: ScriptedAnswer, prompt_chars: int, cached_chars: int
) -> Response:
    reply = make_reply(answer, request_body.model, prompt_chars, cached_chars=cached_chars)
    if not request_body.stream:
        return Response(render_document(reply), media_type="application/json")
    include_usage = (
        request_body.stream_options is not None and request_body.stream_options.include_usage
    )
    parts = render_stream(reply, include_usage=include_usage)
    if not answer.chunk_delay_ms:
        return Response(b"".join(parts), media_type="text/event-stream")

    async def slowly() -> AsyncIterator[bytes]:
        for part in parts:
            yield part
            await asyncio.sleep(answer.chunk_delay_ms / 1000)

    return StreamingResponse(slowly(), media_type="text/event-stream")


def _fail(fault: Fault, request_body: ChatRequest, answer: ScriptedAnswer) -> Response:
    """Return a fault in place of the answer."""
    if isinstance(fault, ErrorStep):
        response = (
            _error(fault.status, "The rehearsal score requests an error here.")
            if fault.body is None
            else _json(fault.body, fault.status)
        )
        if fault.retry_after_s is not None:
            response.headers["retry-after"] = f"{fault.retry_after_s:g}"
            response.headers["retry-after-ms"] = f"{fault.retry_after_s * 1000:g}"
        return response
    return _malform(fault, request_body, answer)


def _malform(fault: MalformedStep, request_body: ChatRequest, answer: ScriptedAnswer) -> Response:
    match fault.kind:
        case "html":
            return Response("<html><h1>502 Bad Gateway</h1></html>", media_type="text/html")
        case "empty":
            return _json({"id": "chatcmpl-none", "object": "chat.completion", "choices": []})
        case "arguments":
            calls = answer.calls or (ScriptedCall(name="choir_fs_read"),)
            reply = make_reply(ScriptedAnswer(calls=calls), request_body.model, 0, broken=True)
        case "body" | "cut":
            reply = make_reply(ScriptedAnswer(answer.text or "Unfinished"), request_body.model, 0)
    full_body = b"".join(render_stream(reply, include_usage=False)) if request_body.stream else None
    media_type = "text/event-stream" if request_body.stream else "application/json"
    body = full_body or render_document(reply)
    if fault.kind == "arguments":
        return Response(body, media_type=media_type)
    if fault.kind == "body":
        return Response(body[: len(body) // 2], media_type=media_type)
    # The declared length is larger than the body, so the client sees the connection close in the middle.
    cut = StreamingResponse(_once(body[: len(body) // 2]), media_type=media_type)
    cut.headers["content-length"] = str(len(body))
    return cut


async def _once(part: bytes) -> AsyncIterator[bytes]:
    yield part


async def _read_body(request: Request) -> bytes | None:
    """Return the body, or None if it exceeds the limit."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_LIMIT:
            return None
        parts.append(part)
    return b"".join(parts)


def _json(document: object, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    kind = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status, "rehearsal_error")
    body: JsonObject = {"error": {"message": message, "type": kind, "code": kind, "param": None}}
    return _json(body, status)


def _faults_text(error: ValidationError) -> str:
    return "; ".join(error_messages(error, "body"))
