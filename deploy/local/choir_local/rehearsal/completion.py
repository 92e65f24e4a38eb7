"""Rendering of an answer in OpenAI's format: one JSON document, or the chunks of a stream.

Pure except for the random ids, which must differ between calls.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from choir_common.wire.model import JsonObject
from choir_local.rehearsal.answers import ScriptedAnswer
from choir_local.rehearsal.score import ScriptedCall

CHUNKS = 6
CHARS_PER_TOKEN = 4  # the usual estimate; nobody is billed
BROKEN_ARGUMENTS = '{"path": "notes.txt", '


@dataclass(frozen=True, slots=True)
class CompletionReply:
    """An answer with the ids of its document and calls; `broken` makes the arguments invalid JSON."""

    answer: ScriptedAnswer
    model: str
    prompt_chars: int
    identity: str
    broken: bool = False
    cached_chars: int = 0
    """Length of the prompt's prefix that an earlier prompt had, in characters (see `prefix`)."""

    @property
    def finish_reason(self) -> str:
        """Return why the answer ends."""
        return "tool_calls" if self.answer.calls else "stop"

    @property
    def usage(self) -> JsonObject:
        """Return estimated token counts."""
        calls = sum(len(_arguments(self, call)) for call in self.answer.calls)
        prompt = self.prompt_chars // CHARS_PER_TOKEN + 1
        completion = (len(self.answer.text or "") + calls) // CHARS_PER_TOKEN + 1
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": self.cached_chars // CHARS_PER_TOKEN},
        }


def make_reply(
    answer: ScriptedAnswer,
    model: str,
    prompt_chars: int,
    *,
    broken: bool = False,
    cached_chars: int = 0,
) -> CompletionReply:
    """Return a reply with new ids for an answer."""
    return CompletionReply(answer, model, prompt_chars, os.urandom(9).hex(), broken, cached_chars)


def render_document(reply: CompletionReply) -> bytes:
    """Return the whole answer as one JSON document."""
    message: JsonObject = {"role": "assistant", "content": reply.answer.text}
    if reply.answer.calls:
        message["tool_calls"] = [
            _render_call(reply, number, call) for number, call in enumerate(reply.answer.calls)
        ]
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    head = _head(reply, "chat.completion")
    return orjson.dumps({**head, "choices": [choice], "usage": reply.usage})


def render_stream(reply: CompletionReply, *, include_usage: bool) -> Iterator[bytes]:
    """Yield the answer as server-sent events, ending with `[DONE]`."""
    yield _chunk(reply, {"role": "assistant", "content": ""})
    for part in _cut(reply.answer.text or ""):
        yield _chunk(reply, {"content": part})
    for number, call in enumerate(reply.answer.calls):
        opened = _render_call(reply, number, call) | {"index": number}
        arguments = _arguments(reply, call)
        opened["function"] = {"name": call.name, "arguments": ""}
        yield _chunk(reply, {"tool_calls": [opened]})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            more: JsonObject = {"index": number, "function": {"arguments": part}}
            yield _chunk(reply, {"tool_calls": [more]})
    yield _chunk(reply, {}, reply.finish_reason)
    if include_usage:
        head = _head(reply, "chat.completion.chunk")
        yield _event({**head, "choices": [], "usage": reply.usage})
    yield b"data: [DONE]\n\n"


def _head(reply: CompletionReply, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-{reply.identity}",
        "object": kind,
        "created": int(time.time()),
        "model": reply.model,
    }


def _render_call(reply: CompletionReply, number: int, call: ScriptedCall) -> JsonObject:
    return {
        "id": f"call_{reply.identity}{number:02d}",
        "type": "function",
        "function": {"name": call.name, "arguments": _arguments(reply, call)},
    }


def _arguments(reply: CompletionReply, call: ScriptedCall) -> str:
    return BROKEN_ARGUMENTS if reply.broken else orjson.dumps(call.arguments).decode()


def _chunk(reply: CompletionReply, delta: JsonObject, finish_reason: str | None = None) -> bytes:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event({**_head(reply, "chat.completion.chunk"), "choices": [choice]})


def _event(document: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(document) + b"\n\n"


def _cut(text: str) -> Iterator[str]:
    """Yield `text` in a few parts, as a model does; nothing for an empty text."""
    size = max(1, -(-len(text) // CHUNKS))
    for start in range(0, len(text), size):
        yield text[start : start + size]
