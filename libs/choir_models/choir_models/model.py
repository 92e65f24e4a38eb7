"""The port `ChatModel`: a prompt, the listener to its output, its result and its errors."""

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal, Protocol

from choir_common.errors import ChoirError
from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject

FailureCause = Literal[
    "provider",
    "connection",
    "timeout",
    "key",
    "credit",
    "not_found",
    "endpoint",
    "refused",
    "filter",
    "too_long",
    "rate",
    "request",
    "format",
]
"""Reason of a model failure; determines the advice to the user."""


class ModelFailed(ChoirError):
    """The model gave no usable answer."""

    code, status = "model_failed", 502

    def __init__(
        self,
        message: str | None = None,
        *,
        cause: FailureCause = "provider",
        retry_after_s: float | None = None,
        spent: "Completion | None" = None,
    ) -> None:
        """`spent`: the unusable output that the provider bills, with its counts as far as they are known."""
        super().__init__(message, retry_after_s=retry_after_s)
        self.cause = cause
        self.spent = spent


class ContextOverflow(ModelFailed):
    """The prompt is longer than the model's context window."""

    code = "context_overflow"


class ModelRequestRejected(ModelFailed):
    """The provider rejected the request as invalid; it may accept another format of the history."""

    code = "request_refused"


class NoModelResponse(ModelFailed):
    """The call got no answer for a passing reason: no connection, or a fault of the provider's servers."""

    code = "no_answer"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages and tools as JSON, in the format of OpenAI's Chat Completions API.

    A message's content is text, or a list of parts: `text`, `image_url` (a data URI) and `file` (a data URI
    with its name). Parts may be in a tool message, too. An adapter for another API translates them.
    """

    messages: tuple[bytes, ...]
    tools: bytes = b"[]"
    """The tools that the model may propose, as a JSON list."""
    json_only: bool = False
    """Whether to request JSON mode (`response_format`) from the provider."""
    without: frozenset[str] = frozenset()
    """Optional parameters that the model refused, by their names in a request; an adapter omits those that it
    adds by itself."""
    is_limited: bool = False
    """Whether money was reserved for the limit of the output, so that it must not be omitted."""

    def omitting(self, names: frozenset[str]) -> "Prompt":
        """Return the prompt without these parameters of the request, too."""
        return replace(self, without=self.without | names) if names else self


class OutputListener(Protocol):
    """Receiver of an output's text while the model writes it."""

    def add_text(self, text: str) -> None:
        """Receive the next part of the text; must return at once."""

    def add_hidden(self, characters: int) -> None:
        """Receive the length of a part of the output that is no text: thoughts, calls of tools."""

    def restart(self) -> None:
        """Discard what was received: the call is made again."""


class _Silent:
    def add_text(self, text: str) -> None:
        pass

    def add_hidden(self, characters: int) -> None:
        pass

    def restart(self) -> None:
        pass


NO_LISTENER: OutputListener = _Silent()
"""Requests a whole response."""
UNHEARD: OutputListener = _Silent()
"""Requests a stream whose text nobody needs: a model that writes for long is not taken for a silent one."""


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A tool call as the model wrote it: the tool's name in the prompt, and possibly malformed JSON."""

    name: str
    arguments: str
    fields: JsonObject = field(default_factory=dict)
    """Other fields that the provider sent with the call, including its own id."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Result of a completed model call."""

    text: str
    calls: tuple[ProposedCall, ...]
    model: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    duration_ms: float
    cached_tokens: int = 0
    """Prompt tokens that were in the provider's prefix cache; part of `prompt_tokens`."""
    cache_write_tokens: int = 0
    """Prompt tokens that the provider wrote to its cache at a price; part of `prompt_tokens`."""
    cache_write_1h_tokens: int = 0
    """Those of `cache_write_tokens` that the provider keeps for an hour."""
    reasoning_tokens: int = 0
    """Completion tokens of the model's reasoning; part of `completion_tokens`."""
    audio_input_tokens: int = 0
    """Prompt tokens of audio; part of `prompt_tokens`."""
    audio_output_tokens: int = 0
    """Completion tokens of audio; part of `completion_tokens`."""
    image_tokens: int = 0
    """Prompt tokens of images, if the provider counts them apart; part of `prompt_tokens`."""
    billed_usd: Decimal | None = None
    """What the provider says that it bills for the call, in US dollars; None if it says nothing."""
    are_counted: bool = True
    """Whether the provider counted the tokens; otherwise they are Choir's estimate."""
    fields: JsonObject = field(default_factory=dict)
    """Other fields that the provider sent with the message."""


UNKNOWN_OUTPUT = Completion("", (), "", "error", 0, 0, 0.0, are_counted=False)
"""An output that the provider bills, and that did not arrive."""


class ChatModel(Protocol):
    """A language model."""

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Return the model's output; a provider that streams it passes its text to the listener.

        Raises RateLimited (with the seconds to wait, if the provider sent them), ContextOverflow or another
        ModelFailed; their messages can be shown to the user.
        """
        ...

    async def close(self) -> None: ...


def model_id(model: ModelConfig) -> str:
    """Return the identifier of a model and its API, for provider fields that only they understand."""
    api = "" if model.api == "openai" else f", {model.api}"
    return f"{model.model} at {model.endpoint}{api}"
