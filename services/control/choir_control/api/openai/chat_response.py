"""Responses of `/chat/completions` and `/models`, as objects and as chunks of a stream. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

import orjson

from choir_common.errors import ChoirError
from choir_common.wire.client_tools import ClientCall
from choir_common.wire.model import WireModel
from choir_control.api.openai.error_responses import error_body
from choir_control.conversations.inbox.answer_store import TokenUsage

Calls = Mapping[str, ClientCall]
"""By the ids that the client gets."""
DONE = b"data: [DONE]\n\n"
OWNER = "choir"
FinishReason = Literal["stop", "tool_calls"]


class Model(WireModel):
    """An agent as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = OWNER


class ModelList(WireModel):
    """The agents of a client."""

    object: Literal["list"] = "list"
    data: tuple[Model, ...]


class PromptTokens(WireModel):
    """Details of the prompt's tokens."""

    cached_tokens: int


class CompletionTokens(WireModel):
    """Details of the answer's tokens."""

    reasoning_tokens: int


class Usage(WireModel):
    """Tokens of all model calls of the turn, from the ledger."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens
    completion_tokens_details: CompletionTokens


class AnswerMessage(WireModel):
    """The agent's answer."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class CalledFunction(WireModel):
    """A tool of the client, and its arguments."""

    name: str
    arguments: str
    """JSON."""


class ToolCallView(WireModel):
    """A call of a tool of the client."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class IndexedToolCall(ToolCallView):
    """A call in a chunk of a stream, which has it as a whole."""

    index: int


class CallingMessage(AnswerMessage):
    """What the agent wrote before it calls tools of the client, and the calls."""

    tool_calls: tuple[ToolCallView, ...]


class Choice(WireModel):
    """The only choice."""

    index: int = 0
    message: AnswerMessage | CallingMessage
    logprobs: None = None
    finish_reason: FinishReason = "stop"


class ChatCompletion(WireModel):
    """A complete answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Usage | None


class AddedText(WireModel):
    """A part of the answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None


class AddedCalls(WireModel):
    """Calls of tools of the client."""

    tool_calls: tuple[IndexedToolCall, ...]


class EventChoice(WireModel):
    """The only choice of a chunk."""

    index: int = 0
    delta: AddedText | AddedCalls
    logprobs: None = None
    finish_reason: FinishReason | None = None


class CompletionEvent(WireModel):
    """One event of a stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: tuple[EventChoice, ...]
    usage: Usage | None = None


class CompletionWriter:
    """Writes the responses to one request."""

    def __init__(
        self, message_id: str, created: int, model: str, *, shows_usage: bool = False
    ) -> None:
        self._id = f"chatcmpl-{message_id}"
        self._shows_usage = shows_usage
        self._created = created
        self._model = model

    def complete(self, text: str, usage: TokenUsage | None) -> dict[str, Any]:
        """Return a complete answer."""
        return self._completion(Choice(message=AnswerMessage(content=text)), usage)

    def complete_with_calls(
        self, text: str, calls: Calls, usage: TokenUsage | None
    ) -> dict[str, Any]:
        """Return an answer that ends with calls of the client's tools."""
        items = tuple(ToolCallView(id=it, function=_function(call)) for it, call in calls.items())
        message = CallingMessage(content=text, tool_calls=items)
        return self._completion(Choice(message=message, finish_reason="tool_calls"), usage)

    def begin(self) -> bytes:
        """Return the first event of a stream."""
        return self._event(EventChoice(delta=AddedText(role="assistant", content="")))

    def piece(self, text: str) -> bytes:
        """Return the event that appends a text."""
        return self._event(EventChoice(delta=AddedText(content=text)))

    def end(self, usage: TokenUsage | None) -> bytes:
        """Return the events that end the answer, with the usage if the request asks for it."""
        return self._end("stop", usage)

    def end_with_calls(self, calls: Calls, usage: TokenUsage | None) -> bytes:
        """Return the events that end the answer with calls of the client's tools."""
        items = tuple(
            IndexedToolCall(index=index, id=it, function=_function(call))
            for index, (it, call) in enumerate(calls.items())
        )
        added = self._event(EventChoice(delta=AddedCalls(tool_calls=items)))
        return added + self._end("tool_calls", usage)

    def fail(self, error: ChoirError) -> bytes:
        """Return the event of an error after a stream has begun."""
        return b"data: " + error_body(error.status, error.code, error.message) + b"\n\n"

    def _completion(self, choice: Choice, usage: TokenUsage | None) -> dict[str, Any]:
        completion = ChatCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=(choice,),
            usage=_usage(usage),
        )
        return completion.model_dump(mode="json")

    def _end(self, reason: FinishReason, usage: TokenUsage | None) -> bytes:
        last = self._event(EventChoice(delta=AddedText(), finish_reason=reason))
        return last + (self._event(usage=_usage(usage)) if self._shows_usage else b"") + DONE

    def _event(self, *choices: EventChoice, usage: Usage | None = None) -> bytes:
        chunk = CompletionEvent(
            id=self._id, created=self._created, model=self._model, choices=choices, usage=usage
        )
        return b"data: " + chunk.model_dump_json().encode() + b"\n\n"


def _function(call: ClientCall) -> CalledFunction:
    return CalledFunction(name=call.name, arguments=orjson.dumps(call.arguments).decode())


def _usage(usage: TokenUsage | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        prompt_tokens=usage.prompt,
        completion_tokens=usage.completion,
        total_tokens=usage.prompt + usage.completion,
        prompt_tokens_details=PromptTokens(cached_tokens=usage.cached),
        completion_tokens_details=CompletionTokens(reasoning_tokens=usage.reasoning),
    )
