"""Results of MCP tools, as the model gets them. Pure."""

from collections.abc import Iterable, Iterator

import orjson
from pydantic import JsonValue

from choir_agent.tools.tool import ToolFailed, ToolOutput
from choir_common.eventlog.json_scrubbing import is_too_deep
from choir_common.wire.model import JsonObject

MAX_RESULT_BYTES = 2_000_000
MAX_ERROR_CHARS = 4_000
MAX_BLOCKS = 1_000


def tool_output(server: str, result: JsonObject) -> ToolOutput:
    """Return the output of a `tools/call` result, which is untrusted in shape, size and content.

    Raises ToolFailed if the server reports an error, or if the result is too large.
    """
    size = limited_size(server, result)
    blocks = result.get("content")
    text = blocks_text(blocks if isinstance(blocks, list) else [])
    if result.get("isError") is True:
        raise ToolFailed(
            "tool_error", text[:MAX_ERROR_CHARS] or f"{server} reports an error without a text."
        )
    output: JsonObject = {"server": server}
    structured = result.get("structuredContent")
    if isinstance(structured, dict) and not is_too_deep(structured):
        output["result"] = structured
        if _is_same(text, structured):
            text = ""
    if text or "result" not in output:
        output["text"] = text
    return ToolOutput(output, f"{server} answered with {size} bytes")


def limited_size(server: str, result: JsonObject) -> int:
    """Return the bytes of a result; raises ToolFailed if they are too many."""
    size = len(orjson.dumps(result))
    if size > MAX_RESULT_BYTES:
        raise ToolFailed(
            "too_large",
            f"The result of {server} has {size} bytes; the limit is {MAX_RESULT_BYTES}. Ask for less.",
        )
    return size


def blocks_text(blocks: Iterable[JsonValue]) -> str:
    """Return the content blocks of a result as one text, with notes instead of binary data."""
    return "\n".join(_texts(blocks))


def _texts(blocks: Iterable[JsonValue]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        if number == MAX_BLOCKS:
            yield f"(only {MAX_BLOCKS} parts of the result are shown)"
            return
        if isinstance(block, dict):
            yield _text(block)


def _text(block: JsonObject) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "resource_link":
            return f"(resource {block.get('uri')}: {block.get('name')})"
        case "resource":
            resource = block.get("resource")
            return _resource_text(resource) if isinstance(resource, dict) else "(no resource)"
        case kind:
            size = _data_size(block.get("data"))
            return f"({str(kind)[:20]}, {block.get('mimeType')}, {size} bytes: not shown)"


def _resource_text(resource: JsonObject) -> str:
    uri, text = resource.get("uri"), resource.get("text")
    if isinstance(text, str):
        return f"(resource {uri})\n{text}"
    size = _data_size(resource.get("blob"))
    return f"(binary resource {uri}, {resource.get('mimeType')}, {size} bytes: not shown)"


def _data_size(data: JsonValue) -> int:
    """Return the number of bytes of base64 text."""
    return len(data) * 3 // 4 - data[-2:].count("=") if isinstance(data, str) else 0


def _is_same(text: str, structured: JsonObject) -> bool:
    """Return whether a text is the same as the structured result, which servers repeat as JSON."""
    try:
        parsed: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return structured == {"result": text}
    return parsed == structured or {"result": parsed} == structured
