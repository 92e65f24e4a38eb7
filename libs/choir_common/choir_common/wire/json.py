"""Type of JSON objects whose schema is defined elsewhere, such as a tool's input and output."""

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
