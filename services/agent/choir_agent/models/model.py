"""The port `ChatModel` with its result and its errors, and the choice of a lane's model."""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from choir_agent.log.session_state import EDGE_LANE
from choir_agent.prompt.prompt_assembler import Prompt
from choir_common.errors import ChoirError
from choir_common.wire.config import AgentSettings, ModelConfig
from choir_common.wire.model import JsonObject

FailureCause = Literal[
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
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.cause = cause


class ContextOverflow(ModelFailed):
    """The prompt is longer than the model's context window."""

    code = "context_overflow"


class ModelRequestRejected(ModelFailed):
    """The provider rejected the request as invalid; it may accept another format of the history."""

    code = "request_refused"


class NoModelResponse(ModelFailed):
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
    """Prompt tokens that were in the provider's prefix cache."""
    fields: JsonObject = field(default_factory=dict)
    """Other fields that the provider sent with the message."""


class ChatModel(Protocol):
    """A language model."""

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Completion:
        """Return the model's output.

        Raises RateLimited (with the seconds to wait, if the provider sent them), ContextOverflow or another
        ModelFailed; their messages can be shown to the user.
        """
        ...

    async def close(self) -> None: ...


def model_for_lane(settings: AgentSettings, lane: str) -> ModelConfig:
    """Return a lane's model: the edge lane's model, or `core_model` for core jobs if it is configured."""
    return settings.model if lane == EDGE_LANE else settings.core_model or settings.model


def model_name_for_lane(settings: AgentSettings, lane: str) -> str:
    """Return the name of a lane's model in config.json."""
    is_core = lane != EDGE_LANE and settings.core_model is not None
    return (settings.core_model_name if is_core else None) or settings.model_name


def model_id(model: ModelConfig) -> str:
    """Return the identifier of a model, for provider fields that only this model understands."""
    return f"{model.model} at {model.endpoint}"
