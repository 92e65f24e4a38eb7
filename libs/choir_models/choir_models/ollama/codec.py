"""Rendering of requests to Ollama's `/api/chat`. Pure.

Differences from Chat Completions: arguments of calls are objects, images are base64 next to the text, the
result of a tool has its name, and sampling parameters are in `options`.
"""

from collections.abc import Iterator, Sequence

import orjson
from pydantic import JsonValue

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.model import Prompt

FIELDS_KEY = "ollama"
"""The key of this API's own fields in an assistant message."""
IMAGES_FOLLOW = "[Choir] Images that the tools returned:"
NO_THINKING = frozenset({"none", "off", "false"})
THINKING_LEVELS = frozenset({"low", "medium", "high"})


def render_request(settings: ModelConfig, prompt: Prompt, *, stream: bool) -> bytes:
    """Return the request body; the same messages always give the same bytes."""
    head: JsonObject = {"model": settings.model, "stream": stream}
    if settings.reasoning_effort is not None:
        head["think"] = _think(settings.reasoning_effort)
    if prompt.json_only:
        head["format"] = "json"
    # Without these Ollama silently drops the oldest messages of a prompt that is too long.
    head |= {"truncate": False, "shift": False}
    extra = {**settings.request.extra_body}
    options = extra.pop("options", None)
    head |= extra
    head["options"] = {**_options(settings), **(options if isinstance(options, dict) else {})}
    messages = orjson.dumps(list(translate_messages(prompt.messages)))
    body = [orjson.dumps(head)[:-1], b',"messages":', messages]
    if prompt.tools != b"[]":
        body += [b',"tools":', prompt.tools]
    return b"".join([*body, b"}"])


def _options(settings: ModelConfig) -> JsonObject:
    options: JsonObject = {
        "num_ctx": settings.context_window,
        "temperature": settings.temperature,
        "top_p": settings.request.top_p,
        "num_predict": settings.max_completion_tokens,
    }
    return {name: value for name, value in options.items() if value is not None}


def _think(effort: str) -> bool | str:
    if effort.lower() in NO_THINKING:
        return False
    return effort.lower() if effort.lower() in THINKING_LEVELS else True


def translate_messages(messages: Sequence[bytes]) -> Iterator[JsonObject]:
    """Yield the messages in Ollama's format.

    Images of tool results follow in a user message, because only user messages may have images.
    """
    tool_names: dict[str, str] = {}
    images: list[JsonValue] = []
    for raw in messages:
        message: JsonObject = orjson.loads(raw)
        role = str(message.get("role"))
        if role != "tool" and images:
            yield {"role": "user", "content": IMAGES_FOLLOW, "images": [*images]}
            images.clear()
        text, own_images = _split_content(message.get("content"))
        match role:
            case "assistant":
                yield _assistant(message, text, tool_names)
            case "tool":
                call_id = str(message.get("tool_call_id"))
                names: JsonObject = {"tool_name": tool_names.get(call_id, "unknown")}
                yield {"role": role, "content": text, **names, "tool_call_id": call_id}
                images += own_images
            case _:
                yield {
                    "role": role,
                    "content": text,
                    **({"images": own_images} if own_images else {}),
                }
    if images:
        yield {"role": "user", "content": IMAGES_FOLLOW, "images": [*images]}


def _assistant(message: JsonObject, text: str, tool_names: dict[str, str]) -> JsonObject:
    calls = message.get("tool_calls")
    translated: JsonObject = {"role": "assistant", "content": text}
    own = message.get(FIELDS_KEY)
    if isinstance(own, dict) and isinstance(own.get("thinking"), str):
        translated["thinking"] = own["thinking"]
    if isinstance(calls, list) and calls:
        translated["tool_calls"] = [
            _call(call, tool_names) for call in calls if isinstance(call, dict)
        ]
    return translated


def _call(call: JsonObject, tool_names: dict[str, str]) -> JsonObject:
    function = call.get("function")
    called = function if isinstance(function, dict) else {}
    name, call_id = str(called.get("name")), str(call.get("id"))
    tool_names[call_id] = name
    return {"id": call_id, "function": {"name": name, "arguments": _arguments(called)}}


def _arguments(function: JsonObject) -> JsonObject:
    try:
        arguments = orjson.loads(str(function.get("arguments") or "{}"))
    except orjson.JSONDecodeError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _split_content(content: JsonValue) -> tuple[str, list[JsonValue]]:
    """Return the text of a message's content, and its images in base64."""
    if not isinstance(content, list):
        return (content if isinstance(content, str) else ""), []
    texts: list[str] = []
    images: list[JsonValue] = []
    for part in content:
        match part:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image_url", "image_url": {"url": str(url)}} if ";base64," in url:
                images.append(url.partition(";base64,")[2])
            case {"type": "file", "file": {"filename": str(name)}}:
                texts.append(f"[Choir] The file {name} was left out: this model takes no files.")
            case _:
                pass
    return "\n\n".join(texts), images
