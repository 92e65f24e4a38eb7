"""Translation of message content from Chat Completions parts to content blocks of the Messages API. Pure."""

import base64

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_models.content_parts import MediaPart, TextPart, content_parts

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF = "application/pdf"


def content_blocks(content: JsonValue) -> list[JsonObject]:
    """Return the content blocks of a user message or a tool result."""
    return [block for part in content_parts(content) for block in _part_blocks(part)]


def text_blocks(text: str) -> list[JsonObject]:
    """Return a text as one block, or no block: the API refuses a text without visible characters."""
    return [{"type": "text", "text": text}] if text.strip() else []


def tool_input(arguments: JsonValue) -> JsonObject:
    """Return the arguments of a call as the object that the API requires."""
    try:
        parsed = orjson.loads(arguments) if isinstance(arguments, str) else arguments
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _part_blocks(part: TextPart | MediaPart) -> list[JsonObject]:
    return text_blocks(part.text) if isinstance(part, TextPart) else [_media(part)]


def _media(part: MediaPart) -> JsonObject:
    media_type = part.mime.partition(";")[0].lower()
    source: JsonObject = {"type": "base64", "media_type": media_type, "data": part.data}
    if media_type in IMAGE_TYPES:
        return {"type": "image", "source": source}
    title: JsonObject = {"title": part.name[:200]} if part.name else {}
    if media_type == PDF:
        return {"type": "document", "source": source, **title}
    if media_type.startswith("text/"):
        text = base64.b64decode(part.data).decode("utf-8", "replace")
        if text.strip():
            source = {"type": "text", "media_type": "text/plain", "data": text}
            return {"type": "document", "source": source, **title}
    name = part.name or "(unnamed)"
    return {"type": "text", "text": f"[Choir] The file {name} ({media_type}) is not shown here."}
