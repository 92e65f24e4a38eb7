"""Assembly of a message from the events of a stream. Pure, except for the listener."""

from datetime import UTC, datetime

import orjson

from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_models.anthropic.response import ReceivedMessage, separator
from choir_models.model import NoModelResponse, OutputListener
from choir_models.provider_errors import error_from_body


class StreamedMessage:
    """A message that grows with each event; its text goes to the listener as it comes."""

    def __init__(self, listener: OutputListener) -> None:
        self._listener = listener
        self._message: JsonObject = {}
        self._usage: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._has_text = False
        self._is_complete = False

    def add(self, event: JsonObject) -> None:
        """Add an event; unknown types are ignored, as the API requires of its clients.

        Raises the classified error if the event is one.
        """
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._message = message
                self._add_usage(message)
            case {"type": "content_block_start", "index": int(at), "content_block": dict(block)}:
                self._start_block(at, {**block})
            case {"type": "content_block_delta", "index": int(at), "delta": dict(delta)}:
                self._add_delta(self._blocks.setdefault(at, {}), delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._message |= delta
                self._add_usage(event)
            case {"type": "message_stop"}:
                self._is_complete = True
            case {"type": "error", "error": error}:
                raise error_from_body(error, datetime.now(UTC))

    def finish(self) -> ReceivedMessage:
        """Return the complete message; raises NoModelResponse if its end is missing."""
        if not self._is_complete:
            message = _("the provider closed the connection in the middle of its answer")
            raise NoModelResponse(message, cause="connection")
        content = [_finished(self._blocks[at]) for at in sorted(self._blocks)]
        fields = {**self._message, "content": content, "usage": self._usage}
        return ReceivedMessage.model_validate(fields)

    def _add_usage(self, counted: JsonObject) -> None:
        # The counts are cumulative; a count that did not change may be missing or null.
        usage = counted.get("usage")
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _start_block(self, at: int, block: JsonObject) -> None:
        previous = self._blocks[max(self._blocks)].get("type") if self._blocks else None
        self._blocks[at] = block
        # A block may be encrypted: its start is all that is seen of it.
        self._listener.add_hidden(1)
        if block.get("type") == "text":
            self._show(separator("text" if self._has_text else "", previous))
            self._show(str(block.get("text", "")))
        elif block.get("type") == "tool_use":
            block["input"] = ""

    def _add_delta(self, block: JsonObject, delta: JsonObject) -> None:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                block["text"] = str(block.get("text", "")) + text
                self._show(text)
            case {"type": "input_json_delta", "partial_json": str(part)}:
                block["input"] = str(block.get("input", "")) + part
                self._listener.add_hidden(len(part))
            case {"type": "thinking_delta", "thinking": str(thinking)}:
                block["thinking"] = str(block.get("thinking", "")) + thinking
                self._listener.add_hidden(len(thinking))
            case {"type": "signature_delta", "signature": str(signature)}:
                block["signature"] = signature
            case {"type": "citations_delta", "citation": citation}:
                citations = block.get("citations")
                block["citations"] = [*(citations if isinstance(citations, list) else []), citation]

    def _show(self, text: str) -> None:
        if text:
            self._has_text = True
            self._listener.add_text(text)


def _finished(block: JsonObject) -> JsonObject:
    text = block.get("input")
    if block.get("type") not in ("tool_use", "server_tool_use") or not isinstance(text, str):
        return block
    try:
        parsed = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return block
    return {**block, "input": parsed} if isinstance(parsed, dict) else block
