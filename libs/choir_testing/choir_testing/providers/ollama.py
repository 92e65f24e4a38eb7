"""Fake of an Ollama server: `/api/chat` by its documentation, and its lists of models.

It counts a prompt's tokens, and refuses one that exceeds the context length, as Ollama does if it may not
truncate.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

import orjson
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from choir_common.wire.model import JsonObject
from choir_common.wire.model_config import ModelApi
from choir_testing.providers.provider import (
    Answer,
    ErrorFault,
    ErrorResponse,
    FakeProvider,
    RecordedRequest,
    Step,
)

FIELDS = {
    *("model", "messages", "tools", "stream", "think", "format", "options", "keep_alive"),
    *("truncate", "shift"),
}
OPTIONS = {"num_ctx", "temperature", "top_p", "num_predict", "seed", "stop", "top_k", "min_p"}
MESSAGE_FIELDS: Mapping[str, set[str]] = {
    "system": {"role", "content"},
    "user": {"role", "content", "images"},
    "assistant": {"role", "content", "thinking", "tool_calls"},
    "tool": {"role", "content", "tool_name", "tool_call_id"},
}
OVERFLOW = "the input length exceeds the context length"
ERRORS: Mapping[str, tuple[int, str]] = {
    "invalid": (400, "invalid request"),
    "key": (401, "unauthorized"),
    "credit": (402, "this model requires a subscription"),
    "rate": (429, "too many concurrent requests"),
    "server": (500, "llama runner process has terminated: exit status 2"),
    "overloaded": (503, "server busy, please try again.  maximum pending requests exceeded"),
    "overflow": (400, OVERFLOW),
    "filter": (400, "content policy"),
}
TIME = "2026-11-23T10:00:00Z"


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int: ...


class ApproximateCounter:
    """Counts a token for every four characters."""

    def count(self, text: str) -> int:
        """Return the approximate number of tokens."""
        return len(text) // 4


class FakeOllama(FakeProvider):
    """An Ollama server with one downloaded model."""

    api: ClassVar[ModelApi] = "ollama"
    name: ClassVar[str] = "ollama"
    paths: ClassVar[tuple[str, ...]] = ("/api/chat",)
    limit_paths: ClassVar[tuple[tuple[str, ...], ...]] = (("options", "num_predict"),)
    stream_type: ClassVar[str] = "application/x-ndjson"
    filters_content: ClassVar[bool] = False

    def __init__(
        self,
        *,
        model: str = "fake-model:latest",
        key: str = "",
        counter: TokenCounter | None = None,
    ) -> None:
        super().__init__(model=model, key=key)
        self._counter = counter or ApproximateCounter()
        self.context_length = 4_096
        """Of a model that is loaded without `num_ctx` (OLLAMA_CONTEXT_LENGTH)."""
        self.max_context_length = 40_960
        self.capabilities = ["completion", "tools", "thinking", "vision"]
        self.modelfile_num_ctx: int | None = None
        self.loaded: int | None = None
        """The context length of the loaded model."""
        self.loads = 0
        """How often the model was loaded; another `num_ctx` loads it again."""
        self.prompt_tokens: list[int] = []
        """The tokens of each prompt."""

    def take_step(self, request: RecordedRequest) -> Step:
        """Return the step for a request; one without messages only loads the model."""
        if request.body.get("messages") or self.outage or self.model_of(request) != self.model:
            return super().take_step(request)
        self._load(request.body)
        return Answer()

    def other_routes(self) -> Sequence[BaseRoute]:
        """Return the routes of the lists of models."""
        return (
            Route("/api/tags", self._list_models, methods=["GET"]),
            Route("/api/ps", self._list_loaded, methods=["GET"]),
            Route("/api/show", self._show, methods=["POST"]),
        )

    async def _list_models(self, _: Request) -> JSONResponse:
        return JSONResponse({"models": [{"name": self.model, "model": self.model, "size": 1}]})

    async def _list_loaded(self, _: Request) -> JSONResponse:
        entry = {"name": self.model, "model": self.model, "context_length": self.loaded}
        return JSONResponse({"models": [entry] if self.loaded else []})

    async def _show(self, request: Request) -> JSONResponse:
        if (await request.json()).get("model") != self.model:
            return JSONResponse({"error": "model not found"}, 404)
        num_ctx = self.modelfile_num_ctx
        info = {"general.architecture": "fake", "fake.context_length": self.max_context_length}
        return JSONResponse(
            {
                "parameters": f"num_ctx    {num_ctx}\n" if num_ctx else "",
                "capabilities": self.capabilities,
                "model_info": info,
            }
        )

    def key_of(self, request: RecordedRequest) -> str | None:
        """Return the bearer token; a local Ollama needs none."""
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    def model_of(self, request: RecordedRequest) -> JsonValue:
        """Return the model that a request names, with its tag."""
        name = str(request.body.get("model"))
        return name if ":" in name else f"{name}:latest"

    def wants_stream(self, request: RecordedRequest) -> bool:
        """Return whether the request asks for a stream, which is the default."""
        return request.body.get("stream") is not False

    def broken_rule(self, request: RecordedRequest) -> str | None:
        """Return what the documentation of `/api/chat` forbids in a request."""
        body = request.body
        unknown = sorted(body.keys() - FIELDS)
        if unknown:
            return f"unknown fields: {unknown}"
        fault = self._broken_options(body)
        messages = body.get("messages")
        if fault or not isinstance(messages, list):
            return fault or "messages must be a list"
        if body.get("tools") and "tools" not in self.capabilities:
            return f'"{self.model}" does not support tools'
        if self.images_of(request) and "vision" not in self.capabilities:
            return "this model is missing data required for image input"
        self._load(body)
        return _broken_message(messages) or self._overflow(body, messages)

    def _broken_options(self, body: JsonObject) -> str | None:
        options = body.get("options", {})
        if not isinstance(options, dict) or options.keys() - OPTIONS:
            return f"invalid option provided: {options}"
        if body.get("think") not in (None, True, False, "low", "medium", "high"):
            return f"invalid think value: {body.get('think')!r}"
        if body.get("think") and "thinking" not in self.capabilities:
            return f'"{self.model}" does not support thinking'
        return None

    def _load(self, body: JsonObject) -> None:
        options = body.get("options")
        asked = options.get("num_ctx") if isinstance(options, dict) else None
        length = asked if isinstance(asked, int) else self.modelfile_num_ctx or self.context_length
        length = min(length, self.max_context_length)
        if length != self.loaded:
            self.loaded = length
            self.loads += 1

    def _overflow(self, body: JsonObject, messages: list[JsonValue]) -> str | None:
        count = self._counter.count(orjson.dumps([messages, body.get("tools") or []]).decode())
        if messages:
            self.prompt_tokens.append(count)
        if count <= (self.loaded or 0):
            return None
        may_cut = body.get("truncate") is not False or body.get("shift") is not False
        return "the prompt was truncated silently" if may_cut else OVERFLOW

    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        """Return an answer as one object; a request without messages only loads the model."""
        if not request.body.get("messages"):
            message: JsonObject = {"role": "assistant", "content": ""}
            return {**self._head(), "message": message, "done": True, "done_reason": "load"}
        message = {"role": "assistant", "content": answer.text, **_extra(answer)}
        return {**self._head(), "message": message, **_end(answer)}

    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        """Return an answer as lines: thoughts, text by words, calls, and the counts."""
        extra = _extra(answer)
        words = answer.text.split(" ") if answer.text else []
        parts: list[JsonObject] = []
        if "thinking" in extra:
            parts.append({"content": "", "thinking": extra["thinking"]})
        parts += [
            {"content": word if not number else f" {word}"} for number, word in enumerate(words)
        ]
        if "tool_calls" in extra:
            parts.append({"content": "", "tool_calls": extra["tool_calls"]})
        lines: list[JsonObject] = [
            {**self._head(), "message": {"role": "assistant", **part}, "done": False}
            for part in parts
        ]
        last: JsonObject = {"role": "assistant", "content": ""}
        lines.append({**self._head(), "message": last, **_end(answer)})
        return [orjson.dumps(line) + b"\n" for line in lines]

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        """Return an error as Ollama writes it: one text."""
        if fault.kind == "not_found":
            text = f"model '{request.body.get('model')}' not found"
            return ErrorResponse(404, {"error": fault.message or text})
        status, usual = ERRORS[fault.kind]
        wait = {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
        return ErrorResponse(status, {"error": fault.message or usual}, wait)

    def images_of(self, request: RecordedRequest) -> Sequence[str]:
        """Return the images in a request, in base64."""
        messages = request.body.get("messages")
        found: list[str] = []
        for message in messages if isinstance(messages, list) else []:
            images = message.get("images") if isinstance(message, dict) else None
            found += [str(image) for image in images] if isinstance(images, list) else []
        return found

    def _head(self) -> JsonObject:
        return {"model": self.model, "created_at": TIME}


def _extra(answer: Answer) -> JsonObject:
    extra: JsonObject = {}
    if answer.reasoning:
        extra["thinking"] = answer.reasoning
    if answer.calls:
        extra["tool_calls"] = [
            {
                "id": f"call_{number}",
                "function": {"index": number, "name": call.name, "arguments": call.arguments},
            }
            for number, call in enumerate(answer.calls)
        ]
    return extra


def _end(answer: Answer) -> JsonObject:
    return {
        "done": True,
        "done_reason": "length" if answer.is_cut else "stop",
        "total_duration": 1_000_000,
        "prompt_eval_count": answer.usage.prompt_tokens,
        "eval_count": answer.usage.completion_tokens,
    }


def _broken_message(messages: list[JsonValue]) -> str | None:
    open_calls: list[str] = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in MESSAGE_FIELDS:
            return f"messages[{number}]: invalid role"
        role = str(message["role"])
        unknown = sorted(message.keys() - MESSAGE_FIELDS[role])
        if unknown or not isinstance(message.get("content"), str):
            return f"messages[{number}]: unknown fields {unknown}, or content that is no text"
        fault = _broken_images(message.get("images", []))
        if fault:
            return f"messages[{number}]: {fault}"
        if role == "tool" and str(message.get("tool_name")) not in open_calls:
            return f"messages[{number}]: a tool result without its call"
        if role == "assistant":
            names = _called_names(message.get("tool_calls", []))
            if names is None:
                return f"messages[{number}]: tool_calls need a name, and an object as arguments"
            open_calls = names
    return None


def _broken_images(images: JsonValue) -> str | None:
    for image in images if isinstance(images, list) else []:
        try:
            base64.b64decode(str(image), validate=True)
        except binascii.Error:
            return "an image is not base64"
    return None


def _called_names(calls: JsonValue) -> list[str] | None:
    names: list[str] = []
    for call in calls if isinstance(calls, list) else []:
        match call:
            case {"function": {"name": str(name), "arguments": dict()}}:
                names.append(name)
            case _:
                return None
    return names
