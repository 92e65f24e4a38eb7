"""Resources and prompts of MCP servers, as the model gets them. Pure.

Everything in them is untrusted: in shape, size and content.
"""

from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from choir_agent.mcp_client.definitions import Method
from choir_agent.mcp_client.results import MAX_BLOCKS, blocks_text, limited_size
from choir_agent.tools.tool import ToolOutput
from choir_common.wire.model import JsonObject

MAX_FIELD = 1_000
"""Characters of a field of a listed entry, such as a description. URIs are never cut."""
_RESOURCE_FIELDS = {"uri": "uri", "uriTemplate": "uri_template", "mimeType": "mime_type"}
_TEXT_FIELDS = ("name", "title", "description")


def content_output(
    server: str, method: Method, arguments: JsonObject, result: JsonObject
) -> ToolOutput:
    """Return the output of a request for resources or prompts.

    Raises ToolFailed if it is too large.
    """
    size = limited_size(server, result)
    output: JsonObject = {"server": server}
    match method:
        case "resources/read":
            contents = _objects(result.get("contents"))
            output["text"] = blocks_text({"type": "resource", "resource": c} for c in contents)
        case "prompts/get":
            output["description"] = _cut(result.get("description"))
            output["messages"] = [*_messages(_objects(result.get("messages")))]
        case _:
            for key, name in _LISTS.items():
                if key in result:
                    entries = [*map(_entry, _objects(result[key]))]
                    output |= _page(name, entries, str(arguments.get("contains") or ""))
    return ToolOutput(output, f"{server} answered with {size} bytes")


_LISTS = {"resources": "resources", "resourceTemplates": "templates", "prompts": "prompts"}


def _page(name: str, entries: list[JsonObject], contains: str) -> JsonObject:
    """Return the entries that contain a text, and how many more there are than can be shown."""
    matches = [entry for entry in entries if contains.casefold() in str(entry).casefold()]
    page: JsonObject = {name: [*matches[:MAX_BLOCKS]]}
    if len(matches) > MAX_BLOCKS:
        page[f"{name}_left_out"] = len(matches) - MAX_BLOCKS
    return page


def _entry(fields: JsonObject) -> JsonObject:
    entry: JsonObject = {
        name: str(fields[key]) for key, name in _RESOURCE_FIELDS.items() if fields.get(key)
    }
    entry |= {key: _cut(fields[key]) for key in _TEXT_FIELDS if fields.get(key)}
    if isinstance(fields.get("size"), int):
        entry["size"] = fields["size"]
    values = [*map(_argument, _objects(fields.get("arguments")))]
    return entry | ({"arguments": [*values[:MAX_BLOCKS]]} if values else {})


def _argument(argument: JsonObject) -> JsonObject:
    return {
        **{key: _cut(argument[key]) for key in _TEXT_FIELDS if argument.get(key)},
        "required": argument.get("required") is True,
    }


def _messages(messages: Iterable[JsonObject]) -> Iterator[JsonValue]:
    for number, message in enumerate(messages):
        if number == MAX_BLOCKS:
            return
        yield {"role": _cut(message.get("role")), "text": blocks_text([message.get("content")])}


def _objects(value: JsonValue) -> list[JsonObject]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _cut(value: JsonValue) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= MAX_FIELD else f"{text[:MAX_FIELD]}…"
