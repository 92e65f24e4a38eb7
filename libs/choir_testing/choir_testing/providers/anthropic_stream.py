"""Events of a streamed message, in the order that the Messages API documents. Pure."""

from collections.abc import Iterator

import orjson

from choir_common.wire.model import JsonObject
from choir_testing.providers.anthropic_rules import objects


def stream_events(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the events of a message in the documented order."""
    usage = message["usage"]
    assert isinstance(usage, dict)
    begun: JsonObject = {"content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": {**message, **begun}}
    yield {"type": "ping"}
    for index, block in enumerate(objects(message["content"])):
        start, deltas = _block_events(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {
        "type": "message_delta",
        "delta": stop,
        "usage": {"output_tokens": usage["output_tokens"],
                  "output_tokens_details": usage["output_tokens_details"]},
    }  # fmt: skip
    yield {"type": "message_stop"}


def _block_events(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    match block["type"]:
        case "text":
            words = str(block["text"]).split(" ")
            parts = [word + " " for word in words[:-1]] + words[-1:]
            return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in parts]
        case "thinking":
            text, signature = block["thinking"], block["signature"]
            deltas: list[JsonObject] = [
                {"type": "thinking_delta", "thinking": text},
                {"type": "signature_delta", "signature": signature},
            ]
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            text = orjson.dumps(block["input"]).decode()
            half = len(text) // 2
            pieces = ["", text[:half], text[half:]]
            inputs: list[JsonObject] = [
                {"type": "input_json_delta", "partial_json": piece} for piece in pieces
            ]
            return {**block, "input": {}}, inputs
    return block, []
