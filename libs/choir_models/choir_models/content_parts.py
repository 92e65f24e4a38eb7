"""Parts of a message's content in the history that all adapters translate. Pure."""

from dataclasses import dataclass

from pydantic import JsonValue

from choir_common.wire.model import JsonObject


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class MediaPart:
    """An image or a document."""

    mime: str
    data: str
    """Its bytes in base64."""
    name: str = ""


def content_parts(content: JsonValue) -> tuple[TextPart | MediaPart, ...]:
    """Return the parts of a message's `content`: text, or a list of `text`, `image_url` and `file` parts."""
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    listed = content if isinstance(content, list) else []
    return tuple(_part(part) for part in listed if isinstance(part, dict))


def _part(part: JsonObject) -> TextPart | MediaPart:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return _media(url, "")
        case {"type": "file", "file": {"file_data": str(data), **file}}:
            return _media(data, str(file.get("filename", "")))
        case {"text": str(text)}:
            return TextPart(text)
    return TextPart(f"[Choir] A part of the type {part.get('type')!r} is not shown here.")


def _media(uri: str, name: str) -> TextPart | MediaPart:
    head, comma, data = uri.partition(";base64,")
    if not comma or not head.startswith("data:"):
        return TextPart(f"[Choir] A file at {uri[:500]}")
    return MediaPart(head.removeprefix("data:"), data, name)
