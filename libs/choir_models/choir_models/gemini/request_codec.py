"""Rendering of Gemini requests. Pure.

Roles alternate: neighbouring messages of one role become one content, and function responses come first in
theirs. Choir's own remarks inside the history become user text, because only the instructions at the
beginning have a place of their own.
"""

from collections.abc import Iterable
from functools import lru_cache

import orjson
from pydantic import JsonValue

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.content_parts import MediaPart, TextPart, content_parts
from choir_models.model import Prompt
from choir_models.provider_fields import native_content

THINKING_BUDGETS = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
"""Tokens for thoughts by `reasoning_effort`, for models that have a budget instead of levels."""
FOREIGN_CALL = "skip_thought_signature_validator"
"""What Google documents as the signature of calls that another model made."""
CONTINUED = "[Choir] The conversation goes on from here."


def render_request(settings: ModelConfig, prompt: Prompt) -> JsonObject:
    """Return the request body; equal beginnings of two prompts become equal beginnings of two bodies."""
    history = _ContentHistory(has_levels=_has_thinking_levels(settings.model))
    for message in prompt.messages:
        history.add(orjson.loads(message))
    body: JsonObject = {}
    if history.instructions:
        body["systemInstruction"] = {"parts": history.instructions}
    if prompt.tools != b"[]":
        body["tools"] = [{"functionDeclarations": _declarations(prompt.tools)}]
    body["generationConfig"] = _generation_config(settings, prompt)
    # The operator's fields override the ones above.
    _merge(body, settings.request.extra_body)
    body["contents"] = history.contents()
    return body


def continued_request(body: JsonObject, token: str, written_tokens: int) -> JsonObject:
    """Return the request for the rest of an output; its limit is that of the whole output."""
    request: JsonObject = {**body, "continuationToken": token}
    config = body.get("generationConfig")
    limit = config.get("maxOutputTokens") if isinstance(config, dict) else None
    if isinstance(config, dict) and isinstance(limit, int):
        rest_limit = max(limit - written_tokens, 1)
        request["generationConfig"] = {**config, "maxOutputTokens": rest_limit}
    return request


def _has_thinking_levels(model: str) -> bool:
    name = model.rpartition("/")[2]
    return not name.startswith(("gemini-1", "gemini-2"))


def _generation_config(settings: ModelConfig, prompt: Prompt) -> JsonObject:
    config: JsonObject = {}
    if settings.temperature is not None and "temperature" not in prompt.without:
        config["temperature"] = settings.temperature
    if settings.request.top_p is not None and "top_p" not in prompt.without:
        config["topP"] = settings.request.top_p
    if settings.max_completion_tokens is not None:
        config["maxOutputTokens"] = settings.max_completion_tokens
    thinking = _thinking(settings)
    if thinking:
        config["thinkingConfig"] = thinking
    if prompt.json_only:
        config["responseMimeType"] = "application/json"
    return config


def _thinking(settings: ModelConfig) -> JsonObject:
    """Return the thinking budget or level; an older model gets a budget for its effort."""
    effort = settings.reasoning_effort
    if settings.thinking_budget is not None:
        return {"thinkingBudget": settings.thinking_budget}
    if effort is None:
        return {}
    if effort in THINKING_BUDGETS and not _has_thinking_levels(settings.model):
        return {"thinkingBudget": THINKING_BUDGETS[effort]}
    return {"thinkingLevel": effort.upper()}


def _merge(body: JsonObject, added: JsonObject) -> None:
    for name, value in added.items():
        earlier = body.get(name)
        if isinstance(earlier, dict) and isinstance(value, dict):
            _merge(earlier, value)
        else:
            body[name] = value


@lru_cache(maxsize=16)
def _declarations(tools: bytes) -> JsonValue:
    """Return the function declarations; JSON Schema is accepted under a name of its own."""
    declarations: list[JsonValue] = []
    for tool in orjson.loads(tools):
        function = tool["function"]
        declaration = {"name": function["name"], "description": function.get("description", "")}
        if function.get("parameters"):
            declaration["parametersJsonSchema"] = function["parameters"]
        declarations.append(declaration)
    return declarations


class _ContentHistory:
    """Contents in the making."""

    def __init__(self, *, has_levels: bool) -> None:
        self.instructions: list[JsonValue] = []
        self._is_new = has_levels
        """Whether the model signs its calls, and accepts media inside function responses."""
        self._turns: list[tuple[str, list[JsonObject]]] = []
        self._open_calls: dict[str, JsonObject] = {}
        """Name and id of each call of the last model turn, by the id that its result names."""

    def add(self, message: JsonObject) -> None:
        """Add a message of the canonical history."""
        content = message.get("content")
        match message.get("role"):
            case "system" if not self._turns:
                self.instructions += _plain_parts(content)
            case "system":
                self._add_remark([_remark(part) for part in _plain_parts(content)])
            case "assistant":
                self._append("model", self._model_parts(message))
            case "tool":
                self._append("user", self._response(str(message.get("tool_call_id")), content))
            case _:
                self._append("user", _plain_parts(content))

    def _add_remark(self, parts: list[JsonObject]) -> None:
        """Add a remark of Choir's; one that follows tool results becomes a part of the last response.

        Text of the user begins a new turn, and signatures belong to the current one.
        """
        last = self._turns[-1][1][-1] if self._turns else {}
        function = last.get("functionResponse")
        response = function.get("response") if isinstance(function, dict) else None
        if not isinstance(response, dict):
            self._append("user", parts)
            return
        earlier = response.get("remarks")
        texts = [part["text"] for part in parts if "text" in part]
        response["remarks"] = [*(earlier if isinstance(earlier, list) else []), *texts]

    def contents(self) -> list[JsonValue]:
        """Return the contents; the first one is the user's, as the API requires."""
        turns = self._turns
        if not turns or turns[0][0] == "model":
            turns = [("user", [{"text": CONTINUED}]), *turns]
        return [{"role": role, "parts": _responses_first(parts)} for role, parts in turns]

    def _append(self, role: str, parts: Iterable[JsonObject]) -> None:
        added = list(parts)
        if not added:
            return
        if self._turns and self._turns[-1][0] == role:
            self._turns[-1][1].extend(added)
        else:
            self._turns.append((role, added))

    def _model_parts(self, message: JsonObject) -> list[JsonObject]:
        listed = message.get("tool_calls")
        calls = (
            [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
        )
        own = _own_parts(message, len(calls))
        parts = own or [*_plain_parts(message.get("content")), *map(_call, calls)]
        if own is None and calls and self._is_new:
            first = next(part for part in parts if "functionCall" in part)
            first["thoughtSignature"] = FOREIGN_CALL
        functions = [part["functionCall"] for part in parts if "functionCall" in part]
        for call, function in zip(calls, functions, strict=True):
            if isinstance(function, dict):
                keys = ("id", "name")
                self._open_calls[str(call.get("id"))] = {
                    k: function[k] for k in keys if k in function
                }
        return parts

    def _response(self, call_id: str, content: JsonValue) -> list[JsonObject]:
        call = self._open_calls.pop(call_id, None)
        parts = content_parts(content)
        text, *remarks = [part.text for part in parts if isinstance(part, TextPart)] or [""]
        if call is None:
            return [_remark({"text": f"A tool returned: {text}"})]
        media = [_inline(part) for part in parts if isinstance(part, MediaPart)]
        result = _as_object(text)
        if remarks:
            result["remarks"] = [*remarks]
        response: JsonObject = {**call, "response": result}
        if media and self._is_new:
            response["parts"] = [*media]
            media = []
        return [{"functionResponse": response}, *media]


def _own_parts(message: JsonObject, calls: int) -> list[JsonObject] | None:
    """Return the parts as the model sent them, or None if there are none that fit the message's calls."""
    content = native_content(message, "gemini")
    parts = [part for part in content if isinstance(part, dict)]
    return parts if parts and sum("functionCall" in part for part in parts) == calls else None


def _call(call: JsonObject) -> JsonObject:
    value = call.get("function")
    function = value if isinstance(value, dict) else {}
    arguments = _as_object(str(function.get("arguments") or "{}"))
    return {"functionCall": {"id": call.get("id"), "name": function.get("name"), "args": arguments}}


def _as_object(text: str) -> JsonObject:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    return value if isinstance(value, dict) else {"output": text}


def _plain_parts(content: JsonValue) -> list[JsonObject]:
    return [
        {"text": part.text} if isinstance(part, TextPart) else _inline(part)
        for part in content_parts(content)
    ]


def _inline(part: MediaPart) -> JsonObject:
    return {"inlineData": {"mimeType": part.mime, "data": part.data}}


def _remark(part: JsonObject) -> JsonObject:
    text = part.get("text")
    if not isinstance(text, str) or text.startswith("[Choir]"):
        return part
    return {"text": f"[Choir] {text}"}


def _responses_first(parts: list[JsonObject]) -> list[JsonValue]:
    return [*sorted(parts, key=lambda part: "functionResponse" not in part)]
