"""Documented rules of the Messages API (version 2026-10-21) for requests. Pure."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

FIELDS = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking"),
        *("output_config", "stream", "metadata", "stop_sequences", "service_tier"),
    }
)
BLOCK_FIELDS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "document": frozenset({"type", "source", "title", "context", "citations", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "caller", "cache_control"}),
    "server_tool_use": frozenset({"type", "id", "name", "input", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
}
USER_BLOCKS = frozenset({"text", "image", "document", "tool_result"})
ASSISTANT_BLOCKS = frozenset(
    {"text", "tool_use", "server_tool_use", "thinking", "redacted_thinking"}
)
THINKING = frozenset({"thinking", "redacted_thinking"})
EFFORTS = ("low", "medium", "high", "xhigh", "max")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MAX_CACHE_POINTS = 4
MIN_BUDGET = 1024
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


class BrokenRule(Exception):
    """A request breaks a rule; the message is the provider's text."""


def check_request(body: JsonObject) -> None:
    """Check everything that depends on the request alone; raises BrokenRule."""
    for name in body:
        _require(name in FIELDS, f"{name}: Extra inputs are not permitted")
    limit = body.get("max_tokens")
    _require(isinstance(limit, int) and limit > 0, "max_tokens: Field required")
    _check_thinking(body)
    _check_tools(body.get("tools"))
    messages = objects(body.get("messages"))
    _require(bool(messages), "messages: at least one message is required")
    _check_roles(messages)
    for index, message in enumerate(messages):
        final = blocks_of(message)[-1]["type"]
        text = "The final block in an assistant message cannot be `thinking`."
        _require(final not in THINKING, f"messages.{index}: {text}")
        for position, block in enumerate(blocks_of(message)):
            _check_block(block, str(message["role"]), f"messages.{index}.content.{position}")
    for block in system_blocks(body):
        _check_block(block, "user", "system")
    _check_results(messages)
    _check_cache_points(body)


def objects(values: JsonValue) -> list[JsonObject]:
    """Return the objects in a list."""
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def blocks_of(message: JsonObject) -> list[JsonObject]:
    """Return the content blocks of a message; text is one block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return objects(content)


def system_blocks(body: JsonObject) -> list[JsonObject]:
    """Return the blocks of the system prompt."""
    return blocks_of({"content": body["system"]}) if "system" in body else []


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise BrokenRule(text)


def _check_thinking(body: JsonObject) -> None:
    config, output = body.get("output_config", {}), body.get("thinking", {"type": "adaptive"})
    effort = config.get("effort") if isinstance(config, dict) else ""
    _require(
        effort is None or effort in EFFORTS, "output_config.effort: Input should be 'low', ..."
    )
    thinking = output if isinstance(output, dict) else {}
    _require(thinking.get("type") in ("adaptive", "enabled", "disabled"), "thinking.type: invalid")
    if thinking["type"] != "enabled":
        _require("budget_tokens" not in thinking, "thinking.budget_tokens: not permitted")
        return
    budget, limit = thinking.get("budget_tokens"), body["max_tokens"]
    _require(isinstance(budget, int) and budget >= MIN_BUDGET, "thinking.budget_tokens: too small")
    below = isinstance(budget, int) and isinstance(limit, int) and budget < limit
    _require(below, "`max_tokens` must be greater than `thinking.budget_tokens`")


def _check_tools(tools: JsonValue) -> None:
    names: set[str] = set()
    for index, tool in enumerate(objects(tools)):
        where = f"tools.{index}.custom"
        extra = tool.keys() - {"name", "description", "input_schema", "cache_control"}
        _require(not extra, f"{where}.{min(extra, default='')}: Extra inputs are not permitted")
        name, schema = tool.get("name"), tool.get("input_schema")
        valid = isinstance(name, str) and _NAME.fullmatch(name) is not None
        _require(valid, f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        _require(str(name) not in names, "tools: Tool names must be unique.")
        names.add(str(name))
        is_object = isinstance(schema, dict) and schema.get("type") == "object"
        _require(is_object, f"{where}.input_schema.type: Field required")
        combined = isinstance(schema, dict) and schema.keys() & {"oneOf", "anyOf", "allOf"}
        text = "input_schema does not support oneOf, allOf, or anyOf at the top level"
        _require(not combined, f"{where}: {text}")


def _check_roles(messages: Sequence[JsonObject]) -> None:
    for index, message in enumerate(messages):
        extra = message.keys() - {"role", "content"}
        where = f"messages.{index}"
        _require(not extra, f"{where}.{min(extra, default='')}: Extra inputs are not permitted")
        role = message.get("role")
        _require(role in ("user", "assistant"), f"{where}: role {role!r} is not supported")
        expected = "assistant" if index % 2 else "user"
        _require(role == expected, f'{where}: roles must alternate between "user" and "assistant"')
        _require(bool(blocks_of(message)), f"{where}: all messages must have non-empty content")
    last = messages[-1]
    paused = any(block["type"] == "server_tool_use" for block in blocks_of(last))
    _require(
        last["role"] == "user" or paused, "This model does not support assistant message prefill."
    )


def _check_block(block: JsonObject, role: str, where: str) -> None:
    kind = str(block.get("type"))
    allowed = USER_BLOCKS if role == "user" else ASSISTANT_BLOCKS
    _require(kind in allowed, f"{where}: block of type {kind!r} is not allowed for role {role!r}")
    extra = block.keys() - BLOCK_FIELDS[kind]
    _require(not extra, f"{where}.{min(extra, default='')}: Extra inputs are not permitted")
    match kind:
        case "text":
            text = str(block.get("text", ""))
            _require(bool(text.strip()), f"{where}: text content blocks must be non-empty")
        case "image" | "document":
            _check_source(block, where)
        case "tool_use":
            fits = _ID.fullmatch(str(block.get("id"))) and _NAME.fullmatch(str(block.get("name")))
            _require(bool(fits), f"{where}.tool_use: invalid id or name")
            _require(isinstance(block.get("input"), dict), f"{where}.input: must be a dictionary")
        case "tool_result":
            for part in blocks_of(block):
                _check_block(part, "user", f"{where}.tool_result")


def _check_source(block: JsonObject, where: str) -> None:
    given = block.get("source")
    source = given if isinstance(given, dict) else {}
    types = IMAGE_TYPES if block["type"] == "image" else ("application/pdf",)
    if source.get("type") == "text" and block["type"] == "document":
        _require(source.get("media_type") == "text/plain", f"{where}.source: invalid media type")
        return
    _require(source.get("type") == "base64", f"{where}.source.type: invalid")
    _require(source.get("media_type") in types, f"{where}.source.media_type: invalid")
    try:
        data = base64.b64decode(str(source.get("data")), validate=True)
    except binascii.Error:
        data = b""
    _require(bool(data), f"{where}.source.data: invalid base64 data")


def _check_results(messages: Sequence[JsonObject]) -> None:
    """Each call has its result at the start of the next message, and each result its call."""
    open_ids: list[JsonValue] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        blocks = blocks_of(message)
        if message["role"] == "user":
            results = [block for block in blocks if block["type"] == "tool_result"]
            _require(blocks[: len(results)] == results, f"messages.{index}: results must be first")
            answered = [result.get("tool_use_id") for result in results]
            text = f"messages.{index}: `tool_use` ids were found without `tool_result` blocks"
            _require(sorted(map(str, answered)) == sorted(map(str, open_ids)), text)
            continue
        open_ids = [block.get("id") for block in blocks if block["type"] == "tool_use"]
        for call_id in map(str, open_ids):
            _require(call_id not in seen, f"messages.{index}: `tool_use` ids must be unique")
            seen.add(call_id)


def _check_cache_points(body: JsonObject) -> None:
    marked = [block for block in _cacheable(body) if "cache_control" in block]
    text = f"A maximum of {MAX_CACHE_POINTS} blocks with cache_control may be provided."
    _require(len(marked) <= MAX_CACHE_POINTS, text)
    for block in marked:
        mark = block["cache_control"]
        valid = isinstance(mark, dict) and mark.get("type") == "ephemeral"
        lasts = isinstance(mark, dict) and mark.get("ttl", "5m") in ("5m", "1h")
        _require(valid and lasts and mark.keys() <= {"type", "ttl"}, "cache_control: invalid")  # type: ignore[union-attr]
        _require(block.get("type") not in THINKING, "cache_control: not allowed on thinking blocks")


def _cacheable(body: JsonObject) -> Iterator[JsonObject]:
    yield from objects(body.get("tools"))
    yield from system_blocks(body)
    for message in objects(body.get("messages")):
        yield from blocks_of(message)
