"""Tools as a model sees them: short, and still saying what each argument is."""

import orjson

from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.model_view import compact_schema, model_view
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.model import JsonObject

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[a-z]+$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 50},
        "rank": {"type": "integer", "minimum": 5},
        "maxLength": {"type": "string", "maxLength": 7},
        "items": {
            "type": "array",
            "maxItems": 9,
            "items": {"enum": [{"minLength": 1}], "description": "which"},
        },
        "more": {"anyOf": [{"type": "object", "additionalProperties": False}, {"type": "null"}]},
        "free": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}},
    },
    "required": ["name", "maxLength"],
    "additionalProperties": False,
}


def test_only_bounds_are_left_out() -> None:
    assert compact_schema(SCHEMA) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]+$"},
            "count": {"type": "integer", "maximum": 50},
            "rank": {"type": "integer", "minimum": 5},
            "maxLength": {"type": "string"},
            "items": {
                "type": "array",
                "items": {"enum": [{"minLength": 1}], "description": "which"},
            },
            "more": {"anyOf": [{"type": "object"}, {"type": "null"}]},
            "free": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["name", "maxLength"],
    }


def test_a_tool_is_a_function_with_a_name_without_dots() -> None:
    tool = ToolManifest(
        LlmView("t.look", "Looks.", {"type": "object", "properties": {}}),
        RuntimeView(timeout_ms=1, side_effect="none", idempotent=True, source=TOOL_OUTPUT),
    )
    (written,) = orjson.loads(model_view([tool]))
    function = {"name": "t_look", "description": "Looks.", "parameters": tool.llm.parameters}
    assert written == {"type": "function", "function": function}
