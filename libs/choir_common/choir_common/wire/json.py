"""The type of JSON whose shape belongs to somebody else: a tool's input, a tool's output."""

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
