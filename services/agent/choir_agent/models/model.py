"""The port `Model`, its result and its errors.

Implemented by `openai_model`; called by the lanes.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from choir_agent.prompt.assemble import Prompt
from choir_common.errors import ChoirError
from choir_common.wire.config import ModelConfig
from choir_common.wire.json import JsonObject

Cause = Literal[
    "provider",
    "connection",
    "timeout",
    "key",
    "credit",
    "not_found",
    "filter",
    "too_long",
    "rate",
    "request",
    "format",
]
"""Reason of a model failure; determines the advice to the user (`advice`)."""


class ModelFailed(ChoirError):
    """The model gave no usable answer."""

    code, status = "model_failed", 502

    def __init__(
        self,
        message: str | None = None,
        *,
        cause: Cause = "provider",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.cause = cause


class ContextOverflow(ModelFailed):
    """The prompt is longer than the model's context window."""

    code = "context_overflow"


class RequestRefused(ModelFailed):
    """The provider rejected the request as invalid; it may accept another format of the history."""

    code = "request_refused"


class NoAnswer(ModelFailed):
    """The call got no response: no connection, or a gateway without a model behind it."""

    code = "no_answer"


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A tool call as the model wrote it: the tool's name in the prompt, and possibly malformed JSON."""

    name: str
    arguments: str
    fields: JsonObject = field(default_factory=dict)
    """Other fields that the provider sent with the call, including its own id."""


@dataclass(frozen=True, slots=True)
class Thought:
    """Result of a completed model call."""

    text: str
    calls: tuple[ProposedCall, ...]
    model: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    duration_ms: float
    cached_tokens: int = 0
    """Prompt tokens that were in the provider's prefix cache."""
    fields: JsonObject = field(default_factory=dict)
    """Other fields that the provider sent with the message."""


class Model(Protocol):
    """A language model."""

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Thought:
        """Return the model's output.

        Raises RateLimited (with the seconds to wait, if the provider sent them), ContextOverflow or another
        ModelFailed; their messages can be shown to the user.
        """
        ...

    async def close(self) -> None: ...
