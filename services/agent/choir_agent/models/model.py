"""The port `Model`: think about a prompt, propose.

Called by the turn; `openai_model` implements it.
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
"""Why a model call failed; decides what the user is advised to do (`advice`)."""


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
    """The prompt is longer than the model takes."""

    code = "context_overflow"


class RequestRefused(ModelFailed):
    """The provider finds fault with the request itself; written otherwise it may be taken."""

    code = "request_refused"


class NoAnswer(ModelFailed):
    """The call got no answer: no connection, or a gateway without a model behind it."""

    code = "no_answer"


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A tool call as the model wrote it: its name for the tool, and JSON text that may be malformed."""

    name: str
    arguments: str
    fields: JsonObject = field(default_factory=dict)
    """What the provider sent with the call besides, its own id included."""


@dataclass(frozen=True, slots=True)
class Thought:
    """A completed model call."""

    text: str
    calls: tuple[ProposedCall, ...]
    model: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    duration_ms: float
    cached_tokens: int = 0
    """Of the prompt's, those the provider had in its prefix cache."""
    fields: JsonObject = field(default_factory=dict)
    """What the provider sent with the message beside its words and calls."""


class Model(Protocol):
    """A language model."""

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Thought:
        """Return what the model says.

        Raises RateLimited (with the seconds to wait, if the provider said them), ContextOverflow or
        another ModelFailed; their messages can be shown to the user.
        """
        ...

    async def close(self) -> None: ...
