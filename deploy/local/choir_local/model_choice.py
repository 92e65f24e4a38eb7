"""Selection of the model for `default`. Called by `Stack` at every start.

The first available of: a score (rehearsal model), an OpenRouter key, an OpenAI key, a local Ollama with a
model that supports tools, the rehearsal model. A key may be in the environment or in secrets.json.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from choir_common.errors import StartupError
from choir_common.wire.config import ModelConfig
from choir_local.http_probe import send_probe
from choir_local.settings import LocalSettings

OPENROUTER_SECRET = "openrouter-key"  # noqa: S105 - a secret's name
OPENAI_SECRET = "openai-key"  # noqa: S105 - a secret's name
OPENROUTER_MODEL = "anthropic/claude-sonnet-4.5"
OPENAI_MODEL = "gpt-5-mini"
ASK_S = 1.0  # a local Ollama answers in milliseconds


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model, its description for users, and the secret values it needs."""

    config: ModelConfig
    description: str
    rehearsal: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict)


class _OllamaModel(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str


class _OllamaModels(BaseModel):
    model_config = ConfigDict(extra="ignore")
    models: tuple[_OllamaModel, ...] = ()


class _OllamaDetails(BaseModel):
    model_config = ConfigDict(extra="ignore")
    capabilities: tuple[str, ...] = ()


async def choose_model(
    settings: LocalSettings, known_secrets: Mapping[str, str], rehearsal_url: str
) -> ModelChoice:
    """Return the model to use; `rehearsal_url` is the address of the rehearsal model.

    Raises StartupError if the source that CHOIR_MODEL_SOURCE requires is not available.
    """
    source = "rehearsal" if settings.score is not None else settings.model_source
    if source in ("auto", "openrouter"):
        choice = _openrouter(settings, known_secrets)
        if choice is not None:
            return choice
    if source in ("auto", "openai"):
        choice = _openai(settings, known_secrets)
        if choice is not None:
            return choice
    if source in ("auto", "ollama"):
        choice = await _ollama(settings)
        if choice is not None:
            return choice
    if source in ("auto", "rehearsal"):
        return _rehearsal(settings, rehearsal_url)
    raise StartupError(
        f"CHOIR_MODEL_SOURCE is {source}, but there is no such model: openrouter needs "
        "OPENROUTER_API_KEY, openai needs OPENAI_API_KEY, and ollama a running Ollama with a model "
        "that can call tools. Provide it, or unset CHOIR_MODEL_SOURCE."
    )


def environment_keys(settings: LocalSettings) -> dict[str, str]:
    """Return the providers' keys in the environment, by the names of their secrets."""
    keys = {OPENROUTER_SECRET: settings.openrouter_api_key, OPENAI_SECRET: settings.openai_api_key}
    values = {name: key.get_secret_value() for name, key in keys.items() if key is not None}
    return {name: value for name, value in values.items() if value}


def _rehearsal(settings: LocalSettings, url: str) -> ModelChoice:
    description = (
        f"the rehearsal model, following {settings.score}"
        if settings.score
        else "the rehearsal model (scripted, no real intelligence)"
    )
    config = ModelConfig(provider="rehearsal", model="rehearsal", endpoint=url, temperature=None)
    return ModelChoice(config, description, rehearsal=True)


def _openrouter(settings: LocalSettings, known_secrets: Mapping[str, str]) -> ModelChoice | None:
    secret = _secret(OPENROUTER_SECRET, settings.openrouter_api_key, known_secrets)
    if secret is None:
        return None
    name = settings.model or OPENROUTER_MODEL
    config = ModelConfig(
        provider="openrouter",
        model=name,
        endpoint="https://openrouter.ai/api/v1",
        secret=OPENROUTER_SECRET,
    )
    return ModelChoice(config, f"{name} at OpenRouter", secrets=secret)


def _openai(settings: LocalSettings, known_secrets: Mapping[str, str]) -> ModelChoice | None:
    secret = _secret(OPENAI_SECRET, settings.openai_api_key, known_secrets)
    if secret is None:
        return None
    name = settings.model or OPENAI_MODEL
    config = ModelConfig(
        provider="openai",
        model=name,
        endpoint=settings.openai_base_url,
        temperature=None,  # newer OpenAI models refuse any temperature but their own
        secret=OPENAI_SECRET,
    )
    return ModelChoice(config, f"{name} at {settings.openai_base_url}", secrets=secret)


def _secret(
    name: str, from_environment: SecretStr | None, known_secrets: Mapping[str, str]
) -> dict[str, str] | None:
    value = from_environment.get_secret_value() if from_environment else known_secrets.get(name)
    return {name: value} if value else None


async def _ollama(settings: LocalSettings) -> ModelChoice | None:
    host_setting = settings.ollama_host
    host = (host_setting if "://" in host_setting else f"http://{host_setting}").rstrip("/")
    try:
        name = await _ollama_model(host, settings.model)
    except ValidationError:
        return None  # something else listens there
    if name is None:
        return None
    config = ModelConfig(provider="ollama", model=name, endpoint=f"{host}/v1")
    return ModelChoice(config, f"{name} at the local Ollama")


async def _ollama_model(host: str, preferred_model: str) -> str | None:
    """Return the first model that supports tools, or `wanted` if it exists."""
    listed = await send_probe(host, "/api/tags", ASK_S)
    if listed is None or listed.status != HTTPStatus.OK:
        return None
    names = [model.name for model in _OllamaModels.model_validate_json(listed.body).models]
    if preferred_model:
        return preferred_model if preferred_model in names else None
    for name in names:
        response = await send_probe(host, "/api/show", ASK_S, json.dumps({"model": name}).encode())
        if response is not None and response.status == HTTPStatus.OK:
            details = _OllamaDetails.model_validate_json(response.body)
            if "tools" in details.capabilities:
                return name
    return None
