"""Convert page properties to plain values, and plain values to properties. Pure.

Values are written by the property's type in the page or data source. So a model writes `{"Status": "Done"}`
and need not know Notion's formats; an object is passed on unchanged.
"""

from pydantic import JsonValue

from choir_agent.tools.notion.blocks import rich_text_to_markdown, text_to_rich_text
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.model import JsonObject

READ_ONLY = (
    *("formula", "rollup", "unique_id", "button", "verification"),
    *("created_time", "created_by", "last_edited_time", "last_edited_by"),
)


def property_values(properties: JsonValue) -> JsonObject:
    """Return the values of a page's properties; empty ones are omitted."""
    if not isinstance(properties, dict):
        return {}
    values: JsonObject = {}
    for name, prop in properties.items():
        value = _value(prop) if isinstance(prop, dict) else None
        if value not in (None, "", []):
            values[name] = value
    return values


def title_text(thing: JsonObject) -> str:
    """Return the title of a page, a data source or a database."""
    own = thing.get("title")
    if isinstance(own, list):
        return rich_text_to_markdown(own)
    properties = thing.get("properties")
    for prop in properties.values() if isinstance(properties, dict) else ():
        if isinstance(prop, dict) and prop.get("type") == "title":
            return rich_text_to_markdown(prop.get("title"))
    return ""


def property_types(properties: JsonValue) -> dict[str, str]:
    """Return the type of each property, of a page or of a data source's schema."""
    if not isinstance(properties, dict):
        return {}
    return {
        name: str(prop.get("type")) for name, prop in properties.items() if isinstance(prop, dict)
    }


def _value(prop: JsonObject) -> JsonValue:
    kind = str(prop.get("type"))
    value = prop.get(kind)
    match kind, value:
        case (("title" | "rich_text"), _):
            return rich_text_to_markdown(value)
        case (("select" | "status"), dict()):
            return value.get("name")
        case "multi_select", list():
            return [item.get("name") for item in value if isinstance(item, dict)]
        case "date", dict():
            start, end = value.get("start"), value.get("end")
            return f"{start} to {end}" if end else start
        case (("people" | "relation"), list()):
            return [item.get("name") or item.get("id") for item in value if isinstance(item, dict)]
        case "files", list():
            return [item.get("name") for item in value if isinstance(item, dict)]
        case "formula", dict():
            return value.get(str(value.get("type")))
        case "unique_id", dict():
            return f"{value.get('prefix') or ''}{value.get('number')}"
        case "rollup", dict():
            inner = value.get(str(value.get("type")))
            many = inner if isinstance(inner, list) else []
            return [_value(item) for item in many if isinstance(item, dict)] or inner
        case (("created_by" | "last_edited_by"), dict()):
            return value.get("name") or value.get("id")
    return value


def to_notion_properties(values: JsonObject, types: dict[str, str]) -> JsonObject:
    """Return plain values as Notion properties.

    Raises ToolFailed for a property that does not exist, is read-only, or has another type.
    """
    properties: JsonObject = {}
    for name, value in values.items():
        kind = types.get(name)
        if kind is None or kind in READ_ONLY:
            writable = sorted(key for key, type_ in types.items() if type_ not in READ_ONLY)
            raise ToolFailed(
                "bad_input",
                f"{name!r} is not a writable property.",
                {"properties": [*writable]},
            )
        # An object is Notion's own format for the property.
        properties[name] = (
            value if isinstance(value, dict) else {kind: _render_value(name, kind, value)}
        )
    return properties


def _render_value(name: str, kind: str, value: JsonValue) -> JsonValue:
    many = value if isinstance(value, list) else [value]
    match kind, value:
        case (("title" | "rich_text"), str()):
            return text_to_rich_text(value)
        case _, None:
            return None
        case (("select" | "status"), str()):
            return {"name": value}
        case "multi_select", str() | list():
            return [{"name": str(item)} for item in many]
        case "date", str():
            start, _, end = value.partition(" to ")
            return {"start": start, "end": end or None}
        case (("people" | "relation"), str() | list()):
            return [{"id": str(item)} for item in many]
        case "checkbox", bool():
            return value
        case "number", int() | float() if not isinstance(value, bool):
            return value
        case (("url" | "email" | "phone_number"), str()):
            return value
    raise ToolFailed("bad_input", f"{name!r} has type {kind}; {value!r} is not a valid value.")
