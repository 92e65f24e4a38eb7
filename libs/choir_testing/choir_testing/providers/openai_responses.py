"""Fake of OpenAI's Responses API, as it is used without storage on the provider's side.

Strict about what the documentation demands: known fields only, one output per function call, and reasoning
items back unchanged, each before the item that followed it.
"""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.providers.provider import (
    Answer,
    ErrorFault,
    ErrorResponse,
    FakeProvider,
    FaultKind,
    RecordedRequest,
)

_BODY_FIELDS = frozenset(
    {
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "store"),
        *("include", "stream", "temperature", "top_p", "max_output_tokens", "reasoning", "text"),
        *("truncation", "metadata", "service_tier", "prompt_cache_key", "safety_identifier"),
    }
)
_ITEM_FIELDS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"type", "role", "content", "id", "status", "phase"}),
    "function_call": frozenset({"type", "call_id", "name", "arguments", "id", "status"}),
    "function_call_output": frozenset({"type", "call_id", "output", "id", "status"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
}
_TOOL_FIELDS = frozenset({"type", "name", "description", "parameters", "strict"})
_INPUT_PARTS: Mapping[str, frozenset[str]] = {
    "input_text": frozenset({"type", "text"}),
    "input_image": frozenset({"type", "image_url", "detail"}),
    "input_file": frozenset({"type", "filename", "file_data"}),
}
_OUTPUT_PARTS: Mapping[str, frozenset[str]] = {
    "output_text": frozenset({"type", "text", "annotations", "logprobs"}),
    "refusal": frozenset({"type", "refusal"}),
}
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATA_URI = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+=*)")
_PIECE = re.compile(r"\s*\S+\s*")
_ERRORS: Mapping[FaultKind, tuple[int, str, str, str]] = {
    "invalid": (400, "invalid_request_error", "invalid_value", "Invalid request."),
    "key": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    "credit": (
        *(429, "insufficient_quota", "insufficient_quota"),
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "not_found": (
        *(404, "invalid_request_error", "model_not_found"),
        "The requested model does not exist.",
    ),
    "rate": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    "server": (500, "server_error", "server_error", "The server had an error."),
    "overloaded": (503, "server_error", "", "The engine is currently overloaded."),
    "overflow": (
        *(400, "invalid_request_error", "context_length_exceeded"),
        "Your input exceeds the context window of this model. Please adjust your input.",
    ),
    "filter": (
        *(400, "invalid_request_error", "content_policy_violation"),
        "Your request was rejected as a result of our safety system.",
    ),
}


class BrokenRule(Exception):
    """The request breaks a rule of the API."""


class OpenAiResponses(FakeProvider):
    """OpenAI's Responses API with one reasoning model."""

    api = "openai-responses"
    name = "openai-responses"
    base_path = "/v1"
    paths = ("/responses",)
    limit_paths = (("max_output_tokens",),)
    limit_error = (
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {longest}, but got "
        "{limit} instead."
    )

    def __init__(self, *, has_reasoning: bool = True, **changes: Any) -> None:
        super().__init__(**changes)
        self.has_reasoning = has_reasoning
        """Whether the model thinks; otherwise it refuses to send encrypted thoughts."""
        self.incomplete_reason = ""
        """Ends the next answers as incomplete for this reason."""
        self.failure: JsonObject | None = None
        """Ends the next answers as failed with this error."""
        self.is_refusal = False
        """Whether the text of the next answers is a refusal."""
        self.sent: list[list[JsonObject]] = []
        """The items of each answer."""

    def key_of(self, request: RecordedRequest) -> str | None:
        """Return the bearer token."""
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    def wants_stream(self, request: RecordedRequest) -> bool:
        """Return whether the body asks for a stream."""
        return request.body.get("stream") is True

    def broken_rule(self, request: RecordedRequest) -> str | None:
        """Return which documented rule a request breaks."""
        try:
            self._check(request.body)
        except BrokenRule as rule:
            return str(rule)
        return None

    def _check(self, body: Any) -> None:
        _check_fields("", body, _BODY_FIELDS)
        for value in body.get("include", []):
            if value != "reasoning.encrypted_content":
                raise BrokenRule(f"Invalid value: '{value}' in 'include'.")
            if not self.has_reasoning:
                raise BrokenRule("Encrypted content is not supported with this model.")
        if body.get("store") is not False:
            raise BrokenRule("This organization requires 'store' to be false.")
        for tool in body.get("tools", []):
            _check_fields("tools[0]", tool, _TOOL_FIELDS)
            if tool["type"] != "function" or not _TOOL_NAME.fullmatch(tool["name"]):
                raise BrokenRule("Invalid 'tools[0].name': string does not match pattern.")
            if tool.get("strict", True):
                raise BrokenRule(f"Invalid schema for function '{tool['name']}' in strict mode.")
        if not body.get("input"):
            raise BrokenRule("One of 'input', 'previous_response_id' or 'prompt' must be provided.")
        for number, item in enumerate(body["input"]):
            _check_item(f"input[{number}]", item)
        is_json = body.get("text", {}).get("format", {}).get("type") == "json_object"
        if is_json and b"json" not in orjson.dumps(body["input"]).lower():
            raise BrokenRule("Response input messages must contain the word 'json' in some form.")
        _check_outputs(body["input"])
        self._check_thoughts(body["input"])

    def _check_thoughts(self, items: Sequence[Any]) -> None:
        """Check that thoughts come back as they were sent, each before the item that followed it."""
        sent = [item for items in self.sent for item in items]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if item["type"] == "reasoning":
                if item not in sent:
                    raise BrokenRule(
                        f"The encrypted content for item {item.get('id')} could not be verified. "
                        "Reason: Encrypted content could not be decrypted or parsed."
                    )
                if following != sent[sent.index(item) + 1]:
                    raise BrokenRule(
                        f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                        "following item."
                    )
            elif "id" in item and item not in sent:
                raise BrokenRule(f"Item with id '{item['id']}' not found.")

    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        """Return a whole response."""
        items = self._items_of(answer, request)
        return self._response(self._status(answer), answer, items)

    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        """Return the documented events: an item is added, its text or arguments grow, and it is done."""
        items = self._items_of(answer, request)
        status = self._status(answer)
        begun = self._response("in_progress", answer, [])
        events: list[JsonObject] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for place, item in enumerate(items):
            events += _item_events(place, item)
        response = self._response(status, answer, items)
        events.append({"type": f"response.{status}", "response": response})
        return [
            f"event: {event['type']}\ndata: ".encode()
            + orjson.dumps({**event, "sequence_number": number})
            + b"\n\n"
            for number, event in enumerate(events)
        ]

    def _status(self, answer: Answer) -> str:
        if self.failure is not None:
            return "failed"
        return "incomplete" if self._incomplete_reason(answer) else "completed"

    def _incomplete_reason(self, answer: Answer) -> str:
        if answer.is_filtered:
            return "content_filter"
        return self.incomplete_reason or ("max_output_tokens" if answer.is_cut else "")

    def _items_of(self, answer: Answer, request: RecordedRequest) -> list[JsonObject]:
        number = len(self.sent) + 1
        status = "incomplete" if answer.is_cut else "completed"
        items: list[JsonObject] = []
        if self.has_reasoning and (answer.reasoning or answer.calls):
            thought: JsonObject = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
            if "include" in request.body:
                thought["encrypted_content"] = base64.b64encode(b"thought %d" % number).decode()
            items.append(thought)
        if answer.text:
            part: JsonObject = {"type": "output_text", "text": answer.text, "annotations": []}
            if self.is_refusal:
                part = {"type": "refusal", "refusal": answer.text}
            message: JsonObject = {"id": f"msg_{number}", "type": "message", "status": status}
            items.append({**message, "role": "assistant", "content": [part]})
        for place, call in enumerate(answer.calls):
            function: JsonObject = {"id": f"fc_{number}_{place}", "type": "function_call"}
            arguments = orjson.dumps(call.arguments).decode()
            function |= {"call_id": f"call_{number}_{place}_own", "name": call.name}
            items.append({**function, "arguments": arguments, "status": status})
        self.sent.append(items)
        return items

    def _response(self, status: str, answer: Answer, items: list[JsonObject]) -> JsonObject:
        usage = answer.usage
        reason = self._incomplete_reason(answer)
        counts: JsonObject = {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.cached_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
            },
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            # OpenRouter's Responses API
            **({} if usage.billed_usd is None else {"cost": usage.billed_usd}),
        }
        return {
            "id": f"resp_{len(self.sent)}",
            "object": "response",
            "status": status,
            "error": self.failure if status == "failed" else None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "model": self.model,
            "output": [*items],
            "usage": None if status == "in_progress" else counts,
        }

    def render_error(self, fault: ErrorFault, request: RecordedRequest) -> ErrorResponse:
        """Return OpenAI's error format."""
        status, kind, code, message = _ERRORS[fault.kind]
        text = fault.message or message
        if fault.kind == "key":
            text = f"{text} You sent {self.key_of(request)}."
        error: JsonObject = {"message": text, "type": kind, "param": None, "code": code or None}
        headers = {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
        return ErrorResponse(status, {"error": error}, headers)

    def images_of(self, request: RecordedRequest) -> Sequence[str]:
        """Return the images of messages and of function outputs."""
        return [uri.partition(";base64,")[2] for uri in _image_urls(request.body["input"])]


def _check_fields(where: str, value: Mapping[str, Any], allowed: frozenset[str]) -> None:
    for name in value.keys() - allowed:
        raise BrokenRule(f"Unknown parameter: '{where}.{name}'.".replace("'.", "'"))


def _check_item(where: str, item: Any) -> None:
    fields = _ITEM_FIELDS.get(item.get("type"))
    if fields is None:
        raise BrokenRule(f"Invalid value: '{item.get('type')}' in '{where}.type'.")
    _check_fields(where, item, fields)
    content: JsonValue = item.get("output" if item["type"] == "function_call_output" else "content")
    if item["type"] == "message" and item["role"] not in (
        "user",
        "assistant",
        "developer",
        "system",
    ):
        raise BrokenRule(f"Invalid value: '{item['role']}' in '{where}.role'.")
    if item["type"] == "function_call" and not _is_json_object(item["arguments"]):
        raise BrokenRule(f"Invalid '{where}.arguments': not a JSON object.")
    if item["type"] == "reasoning" and not item.get("encrypted_content"):
        raise BrokenRule(
            f"Item with id '{item['id']}' not found. Items are not persisted when `store` is false."
        )
    allowed = _OUTPUT_PARTS if item.get("role") == "assistant" else _INPUT_PARTS
    for part in content if isinstance(content, list) else []:
        _check_part(where, part, allowed)


def _check_part(where: str, part: Any, allowed: Mapping[str, frozenset[str]]) -> None:
    if part.get("type") not in allowed:
        raise BrokenRule(f"Invalid value: '{part.get('type')}' in '{where}.content'.")
    _check_fields(where, part, allowed[part["type"]])
    uri = part.get("image_url") or part.get("file_data")
    if uri is not None and not _DATA_URI.fullmatch(uri):
        raise BrokenRule(f"Invalid '{where}.content': expected a base64-encoded data URL.")


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _check_outputs(items: Sequence[Any]) -> None:
    """Check that each call has one output behind it."""
    waiting: list[str] = []
    for item in items:
        if item["type"] == "function_call":
            waiting.append(item["call_id"])
        elif item["type"] == "function_call_output":
            if item["call_id"] not in waiting:
                raise BrokenRule(
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
            waiting.remove(item["call_id"])
    if waiting:
        raise BrokenRule(f"No tool output found for function call {waiting[0]}.")


def _item_events(place: int, item: JsonObject) -> Iterator[JsonObject]:
    where: JsonObject = {"item_id": item["id"], "output_index": place}
    fresh = {**item, "status": "in_progress"}
    if item["type"] == "message":
        fresh["content"] = []
    elif item["type"] == "function_call":
        fresh["arguments"] = ""
    yield {"type": "response.output_item.added", "output_index": place, "item": fresh}
    if item["type"] == "message":
        yield from _text_events({**where, "content_index": 0}, item["content"])
    elif item["type"] == "function_call":
        arguments = str(item["arguments"])
        kind = "response.function_call_arguments"
        yield {"type": f"{kind}.delta", **where, "delta": arguments}
        yield {"type": f"{kind}.done", **where, "arguments": arguments}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _text_events(where: JsonObject, content: Any) -> Iterator[JsonObject]:
    part = content[0]
    name, kind = ("text", "output_text") if "text" in part else ("refusal", "refusal")
    yield {"type": "response.content_part.added", **where, "part": {**part, name: ""}}
    for piece in _PIECE.findall(part[name]):
        yield {"type": f"response.{kind}.delta", **where, "delta": piece}
    yield {"type": f"response.{kind}.done", **where, name: part[name]}
    yield {"type": "response.content_part.done", **where, "part": part}


def _image_urls(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _image_urls(item)
    elif isinstance(value, dict):
        if value.get("type") == "input_image":
            yield value["image_url"]
        for name in ("content", "output"):
            yield from _image_urls(value.get(name))
