"""The model part of `config`: a model, its API, and what is added to each request."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from choir_common.i18n import _
from choir_common.wire.model import JsonObject, Name, WireModel
from choir_common.wire.money import ModelPrices

ModelApi = Literal["openai", "openai-responses", "anthropic", "gemini", "ollama"]
"""An API of language models. `openai` is Chat Completions, which most providers and servers offer."""

InputKind = Literal["text", "image", "pdf"]

DEFAULT_CONTEXT_WINDOW = 128_000
"""Tokens; assumed if neither the configuration nor the model's server says it."""

SMALL_CONTEXT = 16_000
"""Tokens; a model with less has short instructions and tools, and is shown less of the conversation."""

DEFAULT_ENDPOINTS: dict[str, str] = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434",
}
"""Base URL of each API if the configuration names none."""

RESERVED_FIELDS = frozenset(
    {
        *("model", "messages", "system", "tools", "functions", "n"),
        *("stream", "stream_options", "response_format"),
    }
)
RESERVED_HEADERS = frozenset(
    {
        *("authorization", "host", "connection", "transfer-encoding", "accept-encoding"),
        *("content-type", "content-length", "content-encoding", "expect", "upgrade"),
    }
)

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1000}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProviderProperties:
    """Properties of a model provider."""

    is_rehearsal: bool = False
    """Its model follows a script and understands nothing."""
    is_own_server: bool = False
    """It is a program on one's own machine, which tells the context length that it allows."""


MODEL_PROVIDERS: dict[str, ModelProviderProperties] = {
    "rehearsal": ModelProviderProperties(is_rehearsal=True),
    "ollama": ModelProviderProperties(is_own_server=True),
    "llamacpp": ModelProviderProperties(is_own_server=True),
    "vllm": ModelProviderProperties(is_own_server=True),
    "lmstudio": ModelProviderProperties(is_own_server=True),
}
"""The model providers with special properties; one without a row has the default properties."""


def model_provider(name: str) -> ModelProviderProperties:
    """Return the properties of a provider."""
    return MODEL_PROVIDERS.get(name, ModelProviderProperties())


def _free_fields(body: JsonObject) -> JsonObject:
    reserved = sorted(body.keys() & RESERVED_FIELDS)
    if reserved:
        raise ValueError(
            _("{names}: Choir sets this itself; remove it").format(names=", ".join(reserved))
        )
    return body


def _free_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(
                _("{name!r}: not a valid HTTP header with printable ASCII text").format(
                    name=name[:64]
                )
            )
        if name.lower() in RESERVED_HEADERS:
            raise ValueError(
                _("{name}: Choir sets this header itself; remove it").format(name=name)
            )
    return headers


class RequestTemplate(WireModel):
    """Additions to each request to a model."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus sampling; null: not sent."""
    provider_routing: JsonObject | None = None
    """OpenRouter's choice of providers, sent as `provider`: `{"order": [...], "allow_fallbacks": false}`."""
    extra_body: Annotated[JsonObject, AfterValidator(_free_fields)] = Field(default_factory=dict)
    """Additional request fields with the provider's names; they override the settings above."""
    extra_headers: Annotated[dict[str, str], AfterValidator(_free_headers)] = Field(
        default_factory=dict
    )
    """Additional headers; put keys into secrets.json instead."""

    def body_fields(self) -> JsonObject:
        """Return the fields to add to the body of a request."""
        added: JsonObject = {}
        if self.top_p is not None:
            added["top_p"] = self.top_p
        if self.provider_routing is not None:
            added["provider"] = self.provider_routing
        return {**added, **self.extra_body}


class ModelConfig(WireModel):
    """A language model that supports tool calls, and how it is called."""

    provider: str = "openai"
    """The provider's name, for display; `api` says how it is called."""
    api: ModelApi = "openai"
    """The API of the endpoint: `openai` (Chat Completions), `openai-responses`, `anthropic`, `gemini` or
    `ollama`."""
    model: str
    """The provider's name of the model."""
    endpoint: str = ""
    """Base URL; for the OpenAI APIs up to `/v1`. Default: the provider's public address."""
    temperature: float | None = 0.7
    """null: not sent, which some models require. The API `anthropic` has no temperature."""
    reasoning_effort: str | None = None
    """The provider's value (`low`, `medium`, `high`); null: not sent. Claude 4.6 and later: the model decides
    how much it thinks, guided by this. Gemini 3: the thinking level."""
    thinking_budget: int | None = Field(default=None, ge=0)
    """Tokens for thinking, for models that take a budget instead of an effort (Claude 4.5 and earlier: at
    least 1024; Gemini 2.5); 0: no thinking. Only for the APIs `anthropic` and `gemini`."""
    prompt_cache: Literal["off", "5m", "1h"] | None = None
    """Lifetime of the provider's cache of prompts, where it must be requested. null: 5 minutes with the API
    `anthropic` and for Anthropic's models at OpenRouter, otherwise not requested."""
    secret: Name | None = None
    """The name of the secret with the key; null for an endpoint without one."""
    context_window: int | None = Field(default=None, ge=1_000)
    """Tokens; determines when working memory is compacted. Default: what your own model server says (Ollama,
    llama.cpp, vLLM, LM Studio), otherwise 128,000. Below 16,000 the agent has fewer tools."""
    timeout_ms: int = Field(default=120_000, ge=1_000)
    """How long a provider may send nothing: until the first byte of an answer, and between two of them. An
    answer that is not streamed comes at once, at its end. A whole call may take 30 minutes, or this time if
    it is longer."""
    # Not strict: after `_fill_endpoint` JSON's array is a list.
    input: tuple[InputKind, ...] | None = Field(default=None, strict=False)
    """What the model reads: `text`, `image`, `pdf`. Default: pictures if your own model server says so
    (Ollama, llama.cpp, LM Studio) or the model's name is that of one that sees, and PDFs for Claude, Gemini
    and GPT with the APIs `anthropic`, `gemini` and `openai-responses`."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """Maximum tokens of a completion with its reasoning, which a call reserves in the budgets. Default: the
    provider's limit; with a budget in money or the API `anthropic` 32,000, with `thinking_budget` added."""
    # Not strict, as above.
    fallback: tuple[Name, ...] = Field(default=(), strict=False)
    """Other models, used in this order while this one does not answer."""
    request: RequestTemplate = RequestTemplate()
    """Additions to each request: fields, headers, routing."""
    prices: ModelPrices | None = None
    """Its prices; null: those of Choir's price table, if it lists the model."""

    @model_validator(mode="after")
    def _check_budget(self) -> "ModelConfig":
        if (self.thinking_budget or 0) >= (self.max_completion_tokens or math.inf):
            raise ValueError(_("thinking_budget: must be less than max_completion_tokens"))
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_endpoint(cls, data: JsonValue) -> JsonValue:
        if not isinstance(data, dict) or data.get("endpoint"):
            return data
        return {**data, "endpoint": DEFAULT_ENDPOINTS.get(str(data.get("api", "openai")), "")}

    @property
    def window_tokens(self) -> int:
        """Return the context window, or the assumed one if it is not known."""
        return self.context_window or DEFAULT_CONTEXT_WINDOW

    @property
    def has_small_context(self) -> bool:
        """Return whether the model gets short instructions and tools."""
        return self.window_tokens < SMALL_CONTEXT

    @property
    def provider_properties(self) -> ModelProviderProperties:
        """Return the properties of its provider."""
        return model_provider(self.provider)
