"""Generated content of answers: minimal values for a JSON Schema, and summaries. Pure. Used by `answers`.

A compaction or session summary quotes the user's last messages, so that it stays short in a long session.
"""

import json

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject

DEEPEST = 6
WORD = "rehearsal"
QUOTED = 300
_NAMED: JsonObject = {"path": "README.md", "query": WORD}
_TYPED: JsonObject = {
    "string": WORD, "integer": 1, "number": 1, "boolean": False, "array": [], "object": {},
}  # fmt: skip


def sample_value(schema: JsonValue, name: str = "", depth: int = 0) -> JsonValue:
    """Return a value for `schema`; `name` is the property that it is for."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return _NAMED.get(name, WORD)
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        kind = kind[0]
    if kind == "object" or (kind is None and "properties" in schema):
        return sample_object(schema, depth)
    if kind == "array":
        return _items(schema, depth)
    least = schema.get("minimum")
    if kind in ("integer", "number") and isinstance(least, int | float):
        return least
    if kind in (None, "string"):
        return _NAMED.get(name, WORD)
    return _TYPED.get(str(kind), WORD)


def sample_object(schema: JsonObject, depth: int = 0) -> JsonObject:
    """Return an object with only the properties that `schema` requires."""
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return {}
    return {
        name: sample_value(properties.get(name), name, depth + 1) for name in map(str, required)
    }


def _items(schema: JsonObject, depth: int) -> JsonValue:
    least = schema.get("minItems")
    count = least if isinstance(least, int) else 0
    return [sample_value(schema.get("items"), depth=depth + 1) for _ in range(min(count, 10))]


def fold_events(text: str) -> str:
    """Return a valid memory delta for the events in `text`."""
    delta: JsonObject = {
        "mode": "overwrite",
        "summary_update": f"Earlier in this session (quoted by a script): {_quote_user(text)}",
    }
    return orjson.dumps({"memory_delta": delta}).decode()


def summarize_session(text: str) -> str:
    """Return a session summary with its topics."""
    summary = f"The session, quoted by a script: {_quote_user(text)}"
    topics = [{"title": "The session", "text": summary}]
    return orjson.dumps({"summary": summary, "topics": topics}).decode()


def _quote_user(text: str) -> str:
    """Return the user's newest messages from the material, which has one JSON object per line."""
    texts = [str(event["user"]) for event in map(_read, text.splitlines()) if event.get("user")]
    quote = " | ".join(" ".join(item.split()) for item in texts) or " ".join(text.split())
    return quote if len(quote) <= QUOTED else "…" + quote[-QUOTED:]


def _read(line: str) -> JsonObject:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
