"""What all fakes of Chat Completions have in common: the rules of a request, and the formats of an answer."""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson

from choir_common.wire.model import JsonObject
from choir_testing.providers.provider import Answer, FakeProvider, RecordedRequest

Message = dict[str, Any]

BODY_FIELDS = frozenset(
    {
        *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "temperature"),
        *("top_p", "max_completion_tokens", "max_tokens", "reasoning_effort", "response_format"),
        *("stream", "stream_options", "stop", "seed", "n", "user", "metadata"),
    }
)
_MESSAGE_FIELDS: Mapping[str, frozenset[str]] = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "refusal"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_CALL_FIELDS = frozenset({"id", "type", "function"})
_PARTS = {"user": ("text", "image_url", "file", "input_audio")}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DATA_URI = re.compile(r"data:image/(png|jpeg|webp|gif);base64,([A-Za-z0-9+/=]+)")
_ARGUMENT_PIECE = 12


class ChatCompletionsProvider(FakeProvider):
    """A provider of the Chat Completions API; a subclass adds its fields, rules and errors."""

    api = "openai"
    base_path = "/v1"
    paths: ClassVar[tuple[str, ...]] = ("/chat/completions",)
    limit_paths: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("max_completion_tokens",),
        ("max_tokens",),
    )
    limit_error: ClassVar[str] = (
        "max_tokens is too large: {limit}. This model supports at most {longest} completion tokens, "
        "whereas you provided {limit}."
    )
    sees_images: ClassVar[bool] = True
    own_message_fields: ClassVar[frozenset[str]] = frozenset()
    """The provider's own fields of an assistant message, which it accepts back."""
    own_call_fields: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, *, refused: Mapping[str, str] | None = None, **options: str) -> None:
        """Create the provider; `refused` has parameters that the model refuses, with the error text."""
        super().__init__(**options)
        self._refused = refused or {}
        self.sent: list[Message] = []
        """The assistant messages that it sent."""
        self.is_plain = False
        """While set, it sends no fields of its own, and requires none."""

    def key_of(self, request: RecordedRequest) -> str | None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        return key if scheme == "Bearer" else None

    def wants_stream(self, request: RecordedRequest) -> bool:
        return request.body.get("stream") is True

    def broken_rule(self, request: RecordedRequest) -> str | None:
        body: Message = request.body
        refused = next((text for name, text in self._refused.items() if name in body), None)
        return (
            refused
            or self.broken_body(body)
            or self._broken_order(body["messages"])
            or (None if self.is_plain else self.broken_fields(body["messages"]))
        )

    def broken_body(self, body: Message) -> str | None:
        """Return which field of the body is not documented or not allowed."""
        unknown = sorted(body.keys() - BODY_FIELDS)
        if unknown:
            return self.unknown_field(unknown[0])
        if "stream_options" in body and not body.get("stream"):
            return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        if names != [name for name in names if _TOOL_NAME.fullmatch(name)]:
            return "Invalid 'tools[0].function.name': string does not match pattern."
        if ("tool_choice" in body or "parallel_tool_calls" in body) and not names:
            return "'tool_choice' is only allowed when 'tools' are specified."
        return next(filter(None, map(self._broken_message, body["messages"])), None)

    @abstractmethod
    def unknown_field(self, name: str) -> str:
        """Return the error text for an undocumented field."""

    @abstractmethod
    def broken_fields(self, messages: Sequence[Message]) -> str | None:
        """Return which rule about the provider's own fields a history breaks."""

    @abstractmethod
    def decorate(self, message: Message, answer: Answer, number: int) -> None:
        """Add the provider's own fields to its answer of this number."""

    @abstractmethod
    def usage_of(self, answer: Answer) -> JsonObject:
        """Return the usage in the provider's way of counting."""

    def _broken_message(self, message: Message) -> str | None:
        role = message.get("role", "")
        allowed = _MESSAGE_FIELDS.get(role)
        if allowed is None:
            return f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'tool'."
        own = self.own_message_fields if role == "assistant" else frozenset()
        for name in message.keys() - allowed - own:
            return self.unknown_field(name)
        content = message.get("content")
        if content is None and not message.get("tool_calls"):
            return "Invalid value for 'content': expected a string, got null."
        for call in message.get("tool_calls", ()):
            for name in call.keys() - _CALL_FIELDS - self.own_call_fields:
                return self.unknown_field(name)
            try:
                orjson.loads(call["function"]["arguments"])
            except orjson.JSONDecodeError:
                return "Invalid 'tool_calls.function.arguments': not valid JSON."
        return self._broken_parts(role, content) if isinstance(content, list) else None

    def _broken_parts(self, role: str, parts: Sequence[Message]) -> str | None:
        allowed = _PARTS.get(role, ("text",)) if self.sees_images else ("text",)
        for part in parts:
            if part.get("type") not in allowed:
                return f"Invalid content type '{part.get('type')}' in a message with role '{role}'."
            if part["type"] == "image_url" and not _DATA_URI.fullmatch(part["image_url"]["url"]):
                return "Invalid 'image_url': not a valid data URI."
        return None

    def _broken_order(self, messages: Sequence[Message]) -> str | None:
        """Return whether a call lacks its result, or a result its call."""
        waiting: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                if message.get("tool_call_id") not in waiting:
                    return (
                        "Invalid parameter: messages with role 'tool' must be a response to a preceding "
                        "message with 'tool_calls'."
                    )
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                break
            waiting = [call["id"] for call in message.get("tool_calls", ())]
        if waiting:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to "
                f"each 'tool_call_id'. These ids have no response: {', '.join(waiting)}"
            )
        return None

    def message_of(self, answer: Answer) -> Message:
        """Return the assistant message of an answer, and remember it."""
        number = len(self.sent) + 1
        message: Message = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{number}_{n}",
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": orjson.dumps(call.arguments).decode(),
                    },
                }
                for n, call in enumerate(answer.calls)
            ]
        if not self.is_plain:
            self.decorate(message, answer, number)
        self.sent.append(message)
        return message

    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        choice = {
            "index": 0,
            "message": self.message_of(answer),
            "finish_reason": finish_reason(answer),
        }
        return self._envelope("chat.completion", [choice], self.usage_of(answer))

    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        deltas: list[tuple[Message, str | None]] = [({"role": "assistant", "content": ""}, None)]
        deltas += [(delta, None) for delta in self.deltas(self.message_of(answer))]
        deltas.append(({}, finish_reason(answer)))
        chunks = [
            self._envelope(
                "chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": reason}]
            )
            for delta, reason in deltas
        ]
        options = request.body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            chunks.append(self._envelope("chat.completion.chunk", [], self.usage_of(answer)))
        return [*(sse(chunk) for chunk in chunks), b"data: [DONE]\n\n"]

    def deltas(self, message: Message) -> Sequence[Message]:
        """Return the parts of a message: its own fields, its text by words, its calls in pieces."""
        own = message.keys() - {"role", "content", "tool_calls"}
        parts = [piece for name in sorted(own) for piece in _pieces(name, message[name])]
        parts += _pieces("content", message["content"]) if message["content"] else []
        for index, call in enumerate(message.get("tool_calls", ())):
            parts += [{"tool_calls": [piece]} for piece in _call_pieces(index, call)]
        return parts

    def _envelope(
        self, kind: str, choices: Sequence[Message], usage: JsonObject | None = None
    ) -> JsonObject:
        body: Message = {
            "id": f"chatcmpl-{len(self.sent)}",
            "object": kind,
            "created": 1_700_000_000,
            "model": self.model,
            "choices": choices,
        }
        return body if usage is None else {**body, "usage": usage}

    def images_of(self, request: RecordedRequest) -> Sequence[str]:
        messages: Any = request.body["messages"]
        contents = [m["content"] for m in messages if isinstance(m.get("content"), list)]
        urls = [
            part["image_url"]["url"]
            for parts in contents
            for part in parts
            if part["type"] == "image_url"
        ]
        return [match[2] for match in map(_DATA_URI.fullmatch, urls) if match]


def finish_reason(answer: Answer) -> str:
    """Return the reason why an answer ended."""
    if answer.is_filtered:
        return "content_filter"
    if answer.is_cut:
        return "length"
    return "tool_calls" if answer.calls else "stop"


def sse(chunk: object) -> bytes:
    """Return one event of a stream."""
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def usage_with_details(answer: Answer) -> JsonObject:
    """Return the usage as OpenAI counts it."""
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": usage.audio_input_tokens,
            "image_tokens": usage.image_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": usage.audio_output_tokens,
        },
    }


def assistant_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the assistant messages that have tool calls."""
    return [m for m in messages if m["role"] == "assistant" and m.get("tool_calls")]


def current_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last one of the user."""
    last = max((n for n, m in enumerate(messages) if m["role"] == "user"), default=-1)
    return messages[last + 1 :]


def _pieces(name: str, value: object) -> list[Message]:
    if isinstance(value, str):
        return [{name: word} for word in re.findall(r"\s*\S+\s*", value) or [value]]
    if isinstance(value, list):
        return [{name: [item]} for item in value]
    return [{name: value}]


def _call_pieces(index: int, call: Message) -> list[Message]:
    text = call["function"]["arguments"]
    head = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
    cuts = range(0, len(text), _ARGUMENT_PIECE)
    return [
        head,
        *({"index": index, "function": {"arguments": text[n : n + _ARGUMENT_PIECE]}} for n in cuts),
    ]
