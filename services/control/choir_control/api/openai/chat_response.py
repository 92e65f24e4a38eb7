"""Responses of `/chat/completions` and `/models`, as objects and as chunks of a stream. Pure."""

from typing import Any, Literal

from choir_common.errors import ChoirError
from choir_common.wire.model import WireModel
from choir_control.api.openai.error_responses import error_body
from choir_control.conversations.inbox.answer_store import TokenUsage

DONE = b"data: [DONE]\n\n"
OWNER = "choir"


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


class Choice(WireModel):
    """The only choice."""

    index: int = 0
    message: AnswerMessage
    logprobs: None = None
    finish_reason: Literal["stop"] = "stop"


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


class EventChoice(WireModel):
    """The only choice of a chunk."""

    index: int = 0
    delta: AddedText
    logprobs: None = None
    finish_reason: Literal["stop"] | None = None


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
        completion = ChatCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=(Choice(message=AnswerMessage(content=text)),),
            usage=_usage(usage),
        )
        return completion.model_dump(mode="json")

    def begin(self) -> bytes:
        """Return the first event of a stream."""
        return self._event(EventChoice(delta=AddedText(role="assistant", content="")))

    def piece(self, text: str) -> bytes:
        """Return the event that appends a text."""
        return self._event(EventChoice(delta=AddedText(content=text)))

    def end(self, usage: TokenUsage | None) -> bytes:
        """Return the events that end the answer, with the usage if the request asks for it."""
        last = self._event(EventChoice(delta=AddedText(), finish_reason="stop"))
        return last + (self._event(usage=_usage(usage)) if self._shows_usage else b"") + DONE

    def fail(self, error: ChoirError) -> bytes:
        """Return the event of an error after a stream has begun."""
        return b"data: " + error_body(error.status, error.code, error.message) + b"\n\n"

    def _event(self, *choices: EventChoice, usage: Usage | None = None) -> bytes:
        chunk = CompletionEvent(
            id=self._id, created=self._created, model=self._model, choices=choices, usage=usage
        )
        return b"data: " + chunk.model_dump_json().encode() + b"\n\n"


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
