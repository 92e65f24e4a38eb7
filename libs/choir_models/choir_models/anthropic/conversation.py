"""Translation of a conversation from Chat Completions to the Messages API. Pure.

The API takes the system prompt apart from the messages, strictly alternating roles, and all results of an
assistant message's calls at the start of one user message. A remark of Choir's in the conversation, such as
a note about jobs, carries its mark.
"""

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_models.anthropic.content import content_blocks, text_blocks, tool_input
from choir_models.provider_fields import native_content

NATIVE = "anthropic"
"""Key of the API's own content blocks in a message's provider fields."""
MARK = "[Choir] "
CONTINUE = f"{MARK}Continue."
THINKING = ("thinking", "redacted_thinking")


class Conversation:
    """System prompt and messages of a request, built from the messages of a prompt in their order."""

    def __init__(self) -> None:
        self.system: list[JsonObject] = []
        self.messages: list[JsonObject] = []

    def add(self, message: JsonObject) -> None:
        """Add a message in Chat Completions format."""
        content = message.get("content")
        match message.get("role"):
            case "system" if not self.messages:
                self.system += content_blocks(content)
            case "system":
                self._add_remark(_marked(content_blocks(content)))
            case "assistant":
                self._append("assistant", _assistant_blocks(message))
            case "tool":
                self._append("user", [_tool_result(message)])
            case _:
                self._append("user", content_blocks(content))

    def mark_cache_point(self, mark: JsonObject) -> None:
        """Request that the prompt is cached up to the last block that was added."""
        blocks = _blocks(self.messages[-1]) if self.messages else self.system
        if blocks and blocks[-1]["type"] not in THINKING:
            blocks[-1] = {**blocks[-1], "cache_control": mark}

    def finish(self) -> None:
        """End with a user message: an assistant message at the end would be a prefill."""
        if not self.messages or self.messages[-1]["role"] == "assistant":
            self._append("user", text_blocks(CONTINUE))

    def lacks_thinking(self) -> bool:
        """Return whether the calls that were just answered come without the thoughts behind them.

        With a thinking budget, the API refuses such a history.
        """
        if len(self.messages) < 2 or _blocks(self.messages[-1])[0]["type"] != "tool_result":
            return False
        return _blocks(self.messages[-2])[0]["type"] not in THINKING

    def _add_remark(self, blocks: list[JsonObject]) -> None:
        """Add a remark of Choir's; one that follows tool results becomes a part of the last result.

        Older models ignore all thoughts before a user message that has more than results.
        """
        last = _blocks(self.messages[-1])[-1] if self.messages else {}
        if last.get("type") != "tool_result":
            self._append("user", blocks)
            return
        earlier = last.get("content")
        listed = text_blocks(earlier) if isinstance(earlier, str) else earlier or []
        last["content"] = [*listed, *blocks]  # type: ignore[misc] # a list of blocks

    def _append(self, role: str, blocks: list[JsonObject]) -> None:
        if not blocks:
            return
        last = self.messages[-1] if self.messages else None
        # Thoughts must be at the start of their message.
        joins = role == "user" or blocks[0]["type"] not in THINKING
        if last is not None and last["role"] == role and joins:
            _blocks(last).extend(blocks)
            return
        if role == "assistant" and (last is None or last["role"] == role):
            self._append("user", text_blocks(CONTINUE))
        self.messages.append({"role": role, "content": [*blocks]})


def _assistant_blocks(message: JsonObject) -> list[JsonObject]:
    calls = _dicts(message.get("tool_calls"))
    native = _dicts([*native_content(message, NATIVE)])
    uses = [block for block in native if block.get("type") == "tool_use"]
    # A result needs its call; blocks with other calls than `tool_calls` are not sent.
    if native and len(uses) == len(calls):
        rest = iter(calls)
        return [
            _tool_use(block, next(rest)) if block.get("type") == "tool_use" else {**block}
            for block in native
            if not _is_empty_text(block)
        ]
    translated = [_tool_use({"type": "tool_use"}, call) for call in calls]
    return [*content_blocks(message.get("content")), *translated]


def _tool_use(block: JsonObject, call: JsonObject) -> JsonObject:
    function = call.get("function")
    fields = function if isinstance(function, dict) else {}
    own: JsonObject = {"id": call.get("id"), "name": fields.get("name")}
    return {**block, **own, "input": tool_input(fields.get("arguments"))}


def _tool_result(message: JsonObject) -> JsonObject:
    result: JsonObject = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
    content = message.get("content")
    if isinstance(content, str) and content.strip():
        return {**result, "content": content}
    blocks: list[JsonValue] = [*content_blocks(content)]
    return {**result, "content": blocks} if blocks else result


def _marked(blocks: list[JsonObject]) -> list[JsonObject]:
    text = str(blocks[0].get("text", "")) if blocks else ""
    if not text or text.startswith(MARK):
        return blocks
    return [{**blocks[0], "text": MARK + text}, *blocks[1:]]


def _is_empty_text(block: JsonObject) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _blocks(message: JsonObject) -> list[JsonObject]:
    return message["content"]  # type: ignore[return-value] # made by `_append`


def _dicts(values: JsonValue) -> list[JsonObject]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def read_message(raw: bytes) -> JsonObject:
    """Parse a message of a prompt, which is always an object."""
    message: JsonObject = orjson.loads(raw)
    return message
