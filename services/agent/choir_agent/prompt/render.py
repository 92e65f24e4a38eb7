"""Render events as OpenAI chat messages, each to bytes: pure.

Called by `assemble`. Every tool call of an assistant message gets exactly one tool message, also when the
turn ended before the call ran: providers refuse a history where one is missing.
"""

import re
from collections.abc import Callable, Sequence

import orjson

from choir_agent.memory.window import Spoken
from choir_common.wire.events import ModelOutput, Reply, ToolCall, ToolResultCommitted, UserMsg
from choir_common.wire.json import JsonObject

ModelName = Callable[[str], str | None]
"""From a tool's canonical name to the one the model knows; none for a tool that does not exist."""

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME = 64


def system_message(text: str) -> bytes:
    """Render the system message."""
    return orjson.dumps({"role": "system", "content": text})


def turn_messages(events: Sequence[Spoken], model_name: ModelName) -> list[bytes]:
    """Render the events of one turn, oldest first."""
    results = {event.call_id: event for event in events if isinstance(event, ToolResultCommitted)}
    messages: list[bytes] = []
    for event in events:
        match event:
            case UserMsg():
                messages.append(orjson.dumps({"role": "user", "content": event.text}))
            case ModelOutput():
                messages.append(_assistant(event, model_name))
                for call in event.tool_calls:
                    messages.append(_tool(call, results.get(call.call_id)))
            case Reply():
                # an answer repeats the model's last output; errors and notices are news to it
                if event.answers is not None and event.kind != "answer":
                    messages.append(orjson.dumps({"role": "assistant", "content": event.text}))
            case ToolResultCommitted():
                pass  # stands right after its call
    return messages


def _assistant(output: ModelOutput, model_name: ModelName) -> bytes:
    message: JsonObject = {"role": "assistant", "content": output.text}
    if output.tool_calls:
        # some providers refuse an empty text beside calls, none refuses null
        message["content"] = output.text or None
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": _name(call, model_name), "arguments": _arguments(call)},
            }
            for call in output.tool_calls
        ]
    return orjson.dumps(message)


def _name(call: ToolCall, model_name: ModelName) -> str:
    known = model_name(call.tool)
    return known or _NOT_IN_A_NAME.sub("_", call.tool)[:MAX_NAME] or "unknown"


def _arguments(call: ToolCall) -> str:
    # providers parse the history's arguments; the refusal in the result says what was wrong
    try:
        orjson.loads(call.arguments)
    except orjson.JSONDecodeError:
        return "{}"
    return call.arguments


def _tool(call: ToolCall, result: ToolResultCommitted | None) -> bytes:
    content: JsonObject = (
        {"status": "not_run", "output": {"message": "the turn ended before this call ran"}}
        if result is None
        else {"status": result.status, "output": result.output}
    )
    return orjson.dumps(
        {"role": "tool", "tool_call_id": call.call_id, "content": orjson.dumps(content).decode()}
    )
