"""The model part of `config`: a model, its API, and what is added to each request."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from choir_common.wire.model import JsonObject, Name, WireModel

ModelApi = Literal["openai", "openai-responses", "anthropic", "gemini", "ollama"]
"""An API of language models. `openai` is Chat Completions, which most providers and servers offer."""

InputKind = Literal["text", "image", "pdf"]

DEFAULT_ENDPOINTS: dict[str, str] = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434",
}
"""Base URL of each API if the configuration names none."""

RESERVED_FIELDS = frozenset(
    {"model", "messages", "tools", "functions", "stream", "stream_options", "n", "response_format"}
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
    lists_loaded_models: bool = False
    """`GET /api/ps` returns the loaded models with their context length, which may be shorter than the
    model's own."""


MODEL_PROVIDERS: dict[str, ModelProviderProperties] = {
    "rehearsal": ModelProviderProperties(is_rehearsal=True),
    "ollama": ModelProviderProperties(lists_loaded_models=True),
}
"""The model providers with special properties; one without a row has the default properties."""


def model_provider(name: str) -> ModelProviderProperties:
    """Return the properties of a provider."""
    return MODEL_PROVIDERS.get(name, ModelProviderProperties())


def _free_fields(body: JsonObject) -> JsonObject:
    reserved = sorted(body.keys() & RESERVED_FIELDS)
    if reserved:
        raise ValueError(f"{', '.join(reserved)}: Choir sets this itself; remove it")
    return body


def _free_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"{name[:64]!r}: not a valid HTTP header with printable ASCII text")
        if name.lower() in RESERVED_HEADERS:
            raise ValueError(f"{name}: Choir sets this header itself; remove it")
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
    """null: not sent, which some models require."""
    reasoning_effort: str | None = None
    """The provider's value (`low`, `medium`, `high`); null: not sent."""
    secret: Name | None = None
    """The name of the secret with the key; null for an endpoint without one."""
    context_window: int = Field(default=128_000, ge=1_000)
    """Tokens; determines when working memory is compacted."""
    timeout_ms: int = Field(default=120_000, ge=1_000)
    """Maximum duration of one model call; a slow model may take a minute."""
    input: tuple[InputKind, ...] | None = None
    """What the model reads: `text`, `image`, `pdf`. Default: pictures if the model's name is that of one that
    sees; a PDF as text."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """Maximum length of a completion, which a call reserves in the budget; default: the provider's limit."""
    request: RequestTemplate = RequestTemplate()
    """Additions to each request: fields, headers, routing."""

    @model_validator(mode="before")
    @classmethod
    def _fill_endpoint(cls, data: JsonValue) -> JsonValue:
        if not isinstance(data, dict) or data.get("endpoint"):
            return data
        return {**data, "endpoint": DEFAULT_ENDPOINTS.get(str(data.get("api", "openai")), "")}

    @property
    def provider_properties(self) -> ModelProviderProperties:
        """Return the properties of its provider."""
        return model_provider(self.provider)
