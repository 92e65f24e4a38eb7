"""Places in a prompt up to which a provider is asked to cache it. Pure.

Anthropic's models cache a prompt only up to marked blocks, and find an earlier entry only at a block that was
marked in the earlier request. Writing to the cache costs a quarter more than plain input, so a prompt that is
sent only once, without tools, gets no marks.
"""

from collections.abc import Sequence
from typing import Literal

import orjson
from pydantic import JsonValue

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.model import Prompt

MIN_BYTES = 4_000
"""Size of the smallest prefix that is marked. About 1,000 tokens; models ignore marks of less."""
_ASSISTANT = b'{"role":"assistant"'


def cache_ttl(settings: ModelConfig) -> Literal["5m", "1h"] | None:
    """Return the lifetime of cache entries to request, or None to request no caching."""
    if settings.prompt_cache is not None:
        return None if settings.prompt_cache == "off" else settings.prompt_cache
    is_openrouter = "openrouter.ai" in settings.endpoint and "anthropic/" in settings.model
    return "5m" if settings.api == "anthropic" or is_openrouter else None


def cache_mark(ttl: Literal["5m", "1h"]) -> JsonObject:
    """Return the value of `cache_control`; five minutes is the default of the API."""
    mark: dict[str, JsonValue] = {"type": "ephemeral"}
    return mark if ttl == "5m" else {**mark, "ttl": ttl}


def cache_points(prompt: Prompt) -> frozenset[int]:
    """Return the indexes of the messages that end a prefix to cache: at most three.

    These are the instructions (with the tools, which precede them), the end of this request, and the end of
    the request before, which is the place where this request finds its entry: prompts only grow.
    """
    if prompt.tools == b"[]" or not prompt.messages:
        return frozenset()
    last = len(prompt.messages) - 1
    candidates = {0, last, _previous_end(prompt, last)}
    sizes = _prefix_sizes(prompt)
    return frozenset(i for i in candidates if 0 <= i <= last and sizes[i] >= MIN_BYTES)


def marked_messages(settings: ModelConfig, prompt: Prompt) -> Sequence[bytes]:
    """Return a prompt's messages with marks for Chat Completions endpoints that pass them on."""
    ttl = cache_ttl(settings)
    points = cache_points(prompt) if ttl is not None else frozenset()
    if ttl is None or not points:
        return prompt.messages
    mark = cache_mark(ttl)
    return [
        _marked(message, mark) if index in points else message
        for index, message in enumerate(prompt.messages)
    ]


def _marked(raw: bytes, mark: JsonObject) -> bytes:
    """Return a message with a mark on its last text, or the message itself if it has none."""
    message: JsonObject = orjson.loads(raw)
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list):
        return raw
    marked = [*parts]
    for index in range(len(parts) - 1, -1, -1):
        part = parts[index]
        if isinstance(part, dict) and part.get("type") == "text" and part.get("text"):
            marked[index] = {**part, "cache_control": mark}
            return orjson.dumps({**message, "content": marked})
    return raw


def _previous_end(prompt: Prompt, last: int) -> int:
    """Return the index of the message that the newest assistant message answers, or -1."""
    index = last
    while index >= 0 and not prompt.messages[index].startswith(_ASSISTANT):
        index -= 1
    while index >= 0 and prompt.messages[index].startswith(_ASSISTANT):
        index -= 1
    return index


def _prefix_sizes(prompt: Prompt) -> list[int]:
    sizes: list[int] = []
    size = len(prompt.tools)
    for message in prompt.messages:
        size += len(message)
        sizes.append(size)
    return sizes
