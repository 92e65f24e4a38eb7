"""Generator of minimal values for a JSON Schema, with harmless text. Pure. Used by `answers`."""

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

DEEPEST = 6
WORD = "rehearsal"
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
