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
    size = len(orjson.dumps(result))
    if size > MAX_RESULT_BYTES:
        raise ToolFailed(
            "too_large",
            f"The result of {server} has {size} bytes; the limit is {MAX_RESULT_BYTES}. Ask for less.",
        )
    blocks = result.get("content")
    texts = [*_texts(blocks if isinstance(blocks, list) else [])]
    text = "\n".join(texts)
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
            if isinstance(resource, dict) and isinstance(resource.get("text"), str):
                return f"(resource {resource.get('uri')})\n{resource['text']}"
            return "(a binary resource, which is not shown)"
        case kind:
            data = block.get("data")
            size = len(data) * 3 // 4 if isinstance(data, str) else 0
            return f"({str(kind)[:20]}, {block.get('mimeType')}, {size} bytes: not shown)"


def _is_same(text: str, structured: JsonObject) -> bool:
    """Return whether a text is the same as the structured result, which servers repeat as JSON."""
    try:
        parsed: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return structured == {"result": text}
    return parsed == structured or {"result": parsed} == structured
