"""Model servers that hold their clients to the documented rules about fields of assistant messages.

Each acts the same little play: to a user's message that begins with "use" it proposes two rounds of file
reads and then answers; to anything else it answers at once. They differ in the fields they send and want.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.http.listen import bind_tcp, serve

Message = dict[str, Any]
ROUNDS = 2


@dataclass
class Rules:
    """What one provider sends with its answers, and what it refuses."""

    decorate: Callable[[Message, int], None]
    """Adds the provider's own fields to an answer, given its number."""
    fault: Callable[[Sequence[Message], dict[int, Message]], str | None]
    """Returns what is wrong with a history, given the answers sent so far by number."""


@dataclass
class StrictProvider:
    """The server's address, what it was asked, and what it refused."""

    rules: Rules
    endpoint: str = ""
    requests: list[Sequence[Message]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    sent: dict[int, Message] = field(default_factory=dict)

    def respond(self, messages: Sequence[Message]) -> Response:
        """Refuse a history that breaks the rules, else answer."""
        self.requests.append(messages)
        fault = self.rules.fault(messages, self.sent)
        if fault is not None:
            self.refusals.append(fault)
            body = {"error": {"code": 400, "message": fault, "status": "INVALID_ARGUMENT"}}
            return Response(orjson.dumps(body), 400, media_type="application/json")
        number = len(self.sent) + 1
        answer = _play(messages, number)
        self.rules.decorate(answer, number)
        self.sent[number] = answer
        finish = "tool_calls" if answer.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 10}
        choice = {"index": 0, "message": answer, "finish_reason": finish}
        body = {"choices": [choice], "model": "strict", "usage": usage}
        return Response(orjson.dumps(body), media_type="application/json")


def current_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return what follows the user's last own message."""
    last = max(n for n, m in enumerate(messages) if m["role"] == "user")
    return messages[last + 1 :]


def text_of(message: Message) -> str:
    """Return a message's text, also of one with pictures."""
    content = message["content"] or ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def assistant_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the assistant messages that hold tool calls."""
    return [m for m in messages if m["role"] == "assistant" and m.get("tool_calls")]


def _play(messages: Sequence[Message], number: int) -> Message:
    said = [text_of(m) for m in messages if m["role"] == "user"]
    asks = [text for text in said if not text.startswith("[Choir]")]
    done = len(assistant_calls(current_turn(messages)))
    told_in_words = said[-1].startswith("[Choir]")
    if not re.search(r"\buse\b", asks[-1]) or done == ROUNDS or told_in_words:
        return {"role": "assistant", "content": f"answer {number}"}
    calls = [
        {
            "id": f"theirs_{number}_{n}",
            "type": "function",
            "function": {"name": "choir_fs_read", "arguments": '{"path":"a.txt"}'},
        }
        for n in range(2)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@contextlib.asynccontextmanager
async def strict_provider(rules: Rules) -> AsyncIterator[StrictProvider]:
    """Serve under these rules while the block runs."""
    provider = StrictProvider(rules)

    async def complete(request: Request) -> Response:
        body = orjson.loads(await request.body())
        provider.bodies.append(body)
        provider.headers.append(dict(request.headers))
        return provider.respond(body["messages"])

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    listener = bind_tcp("127.0.0.1", 0, "port")
    stop = asyncio.Event()
    server = asyncio.create_task(serve(app, [listener], stop))
    provider.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        stop.set()
        await server


# Gemini: the first call of each step of the current turn carries the signature it came with.


def _sign(answer: Message, number: int) -> None:
    for call in answer.get("tool_calls", ())[:1]:
        call["extra_content"] = {"google": {"thought_signature": f"signed {number}"}}


def _unsigned(messages: Sequence[Message], sent: dict[int, Message]) -> str | None:
    for message in assistant_calls(current_turn(messages)):
        signature = message["tool_calls"][0].get("extra_content", {}).get("google", {})
        known = [f"signed {number}" for number in sent]
        if signature.get("thought_signature") not in known:
            return "Function call is missing a thought_signature in functionCall parts."
    return None


def gemini() -> Rules:
    """Return Gemini's rule about thought signatures."""
    return Rules(_sign, _unsigned)


# DeepSeek: every message with calls carries the reasoning that led to it.


def _reason(answer: Message, number: int) -> None:
    answer["reasoning_content"] = f"thinking {number}"


def _unreasoned(messages: Sequence[Message], sent: dict[int, Message]) -> str | None:
    known = {f"thinking {number}" for number in sent}
    if all(m.get("reasoning_content") in known for m in assistant_calls(messages)):
        return None
    return "The `reasoning_content` in the thinking mode must be passed back to the API."


def deepseek() -> Rules:
    """Return DeepSeek's rule about the reasoning of turns with tools."""
    return Rules(_reason, _unreasoned)


# OpenRouter: reasoning details unmodified and in order; an encrypted one names the call it belongs to.


def _detail(answer: Message, number: int) -> None:
    calls = answer.get("tool_calls", ())
    answer["reasoning"] = f"thinking {number}"
    answer["reasoning_details"] = [
        {
            "type": "reasoning.text",
            "text": f"thinking {number}",
            "signature": f"s{number}",
            "index": 0,
        },
        *({"type": "reasoning.encrypted", "data": "ZGF0YQ==", "id": call["id"]} for call in calls),
    ]


def _undetailed(messages: Sequence[Message], sent: dict[int, Message]) -> str | None:
    known = [answer["reasoning_details"] for answer in sent.values()]
    for message in assistant_calls(messages):
        details = message.get("reasoning_details")
        if details not in known:
            return "reasoning_details are required for this model and must be sent unmodified"
        ids = {call["id"] for call in message["tool_calls"]}
        if any(detail.get("id", next(iter(ids))) not in ids for detail in details):
            return "reasoning_details name a tool call that is missing"
    return None


def openrouter() -> Rules:
    """Return OpenRouter's rule about reasoning details."""
    return Rules(_detail, _undetailed)


# Groq: sends reasoning, and refuses a request that holds it.


def _refuse_reasoning(messages: Sequence[Message], sent: dict[int, Message]) -> str | None:
    if any("reasoning" in message for message in messages):
        return "'messages.2' : for 'role:assistant' property 'reasoning' is unsupported"
    return None


def groq() -> Rules:
    """Return the rule of an endpoint that does not read what it sends."""

    def reason(answer: Message, number: int) -> None:
        answer["reasoning"] = f"thinking {number}"

    return Rules(reason, _refuse_reasoning)


def lenient() -> Rules:
    """Return the rule of a provider that sends nothing of its own and refuses nothing."""
    return Rules(lambda answer, number: None, lambda messages, sent: None)
