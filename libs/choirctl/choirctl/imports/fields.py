"""Typed access to fields of untrusted JSON: a value of another type counts as missing."""

from collections.abc import Iterator

from pydantic import JsonValue

JsonDict = dict[str, JsonValue]


def text_of(record: JsonDict, *names: str) -> str:
    """Return the first field that is a text, or an empty text."""
    return next((value for name in names if isinstance(value := record.get(name), str)), "")


def object_of(record: JsonDict, *names: str) -> JsonDict:
    """Return the first field that is an object, or an empty one."""
    return next((value for name in names if isinstance(value := record.get(name), dict)), {})


def objects_of(record: JsonDict, name: str) -> Iterator[JsonDict]:
    """Yield the objects of a list."""
    value = record.get(name)
    yield from (
        item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict)
    )


def number_of(record: JsonDict, *names: str) -> float:
    """Return the first field that is a number, or 0."""
    for name in names:
        value = record.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return 0


def plain_text(content: JsonValue) -> str:
    """Return the text of a message: a text, or the parts of type `text` of a list; others are left out."""
    if isinstance(content, str):
        return content.strip()
    parts: list[str] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, dict) and part.get("type", "text") == "text":
            parts.append(text_of(part, "text"))
    return "\n\n".join(part.strip() for part in parts if part.strip())
