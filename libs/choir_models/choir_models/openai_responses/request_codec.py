"""Rendering of Responses requests. Pure.

The provider stores nothing (`store`): each request has the whole history, with the model's thoughts in
encrypted form. An output goes back as the items that it consisted of, because the API refuses a reasoning
item without the item that follows it.
"""

from functools import lru_cache

import orjson
from pydantic import JsonValue

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.content_parts import MediaPart, TextPart, content_parts
from choir_models.model import Prompt
from choir_models.provider_fields import native_content

API = "openai-responses"
ENCRYPTED_REASONING = "reasoning.encrypted_content"


def render_request(
    settings: ModelConfig, prompt: Prompt, *, reasoning: bool = True, stream: bool = False
) -> bytes:
    """Return the request body; `reasoning` requests the encrypted thoughts, which some models refuse."""
    history = _InputHistory()
    for message in prompt.messages:
        history.add(orjson.loads(message))
    body: JsonObject = {"model": settings.model, "store": False}
    if reasoning:
        body["include"] = [ENCRYPTED_REASONING]
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    if settings.reasoning_effort is not None:
        body["reasoning"] = {"effort": settings.reasoning_effort}
    if settings.max_completion_tokens is not None:
        body["max_output_tokens"] = settings.max_completion_tokens
    # The operator's request template may override the fields above.
    body |= settings.request.body_fields()
    body = {name: value for name, value in body.items() if name not in prompt.without}
    if prompt.json_only:
        body["text"] = {"format": {"type": "json_object"}}
    if prompt.tools != b"[]":
        body["tools"] = _tools(prompt.tools)
    if stream:
        body["stream"] = True
    instructions = "\n\n".join(history.instructions)
    # JSON mode demands the word in the input, where the instructions are not looked at.
    if instructions and history.items and not prompt.json_only:
        body["instructions"] = instructions
    elif instructions:
        history.items.insert(0, _message("developer", instructions))
    body["input"] = [*history.items]
    return orjson.dumps(body)


@lru_cache(maxsize=16)
def _tools(tools: bytes) -> list[JsonValue]:
    """Return the tools; strict mode is the default there and refuses optional arguments."""
    functions = [tool["function"] for tool in orjson.loads(tools)]
    return [{"type": "function", **function, "strict": False} for function in functions]


class _InputHistory:
    """Items in the making."""

    def __init__(self) -> None:
        self.instructions: list[str] = []
        self.items: list[JsonObject] = []
        self._call_ids: dict[str, JsonValue] = {}
        """The id of each call in its item, by the id that its result names."""

    def add(self, message: JsonObject) -> None:
        """Add a message of the canonical history."""
        content = message.get("content")
        match message.get("role"):
            case "system" if not self.items:
                parts = content_parts(content)
                self.instructions += [part.text for part in parts if isinstance(part, TextPart)]
            case "system":
                self._append_message("developer", content)
            case "assistant":
                self._append_output(message)
            case "tool":
                self.items.append(self._result(str(message.get("tool_call_id")), content))
            case _:
                self._append_message("user", content)

    def _append_message(self, role: str, content: JsonValue) -> None:
        if content:
            self.items.append(_message(role, content))

    def _append_output(self, message: JsonObject) -> None:
        listed = message.get("tool_calls")
        calls = (
            [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
        )
        items = _own_items(message, len(calls)) or _items(message, calls)
        own_calls = [item for item in items if item.get("type") == "function_call"]
        for call, item in zip(calls, own_calls, strict=True):
            self._call_ids[str(call.get("id"))] = item.get("call_id")
        self.items += items

    def _result(self, call_id: str, content: JsonValue) -> JsonObject:
        output = content if isinstance(content, str) else _input_parts(content)
        own_id = self._call_ids.pop(call_id, call_id)
        return {"type": "function_call_output", "call_id": own_id, "output": output}


def _message(role: str, content: JsonValue) -> JsonObject:
    return {"type": "message", "role": role, "content": _input_parts(content)}


def _own_items(message: JsonObject, calls: int) -> list[JsonObject]:
    """Return the items as the model sent them, or nothing if they do not fit the message's calls."""
    items = [item for item in native_content(message, API) if isinstance(item, dict)]
    return items if sum(item.get("type") == "function_call" for item in items) == calls else []


def _items(message: JsonObject, calls: list[JsonObject]) -> list[JsonObject]:
    parts = content_parts(message.get("content"))
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    items: list[JsonObject] = []
    if text:
        content: list[JsonValue] = [{"type": "output_text", "text": text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    return items + [_call(call) for call in calls]


def _call(call: JsonObject) -> JsonObject:
    value = call.get("function")
    function = value if isinstance(value, dict) else {}
    return {
        "type": "function_call",
        "call_id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _input_parts(content: JsonValue) -> list[JsonValue]:
    return [_input_part(part) for part in content_parts(content)]


def _input_part(part: TextPart | MediaPart) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    uri = f"data:{part.mime};base64,{part.data}"
    if part.mime.startswith("image/"):
        return {"type": "input_image", "image_url": uri}
    return {"type": "input_file", "filename": part.name or "file", "file_data": uri}
