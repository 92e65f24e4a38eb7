"""Selection of the model for `default`. Called by `Stack` at every start.

The first available of: a score (rehearsal model), a key of OpenRouter, OpenAI, Anthropic or Gemini, a model
server of this machine (Ollama, LM Studio, llama.cpp, vLLM) with a model that supports tools, the rehearsal
model. A key may be in the environment or in secrets.json.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import SecretStr

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.config import ModelConfig
from choir_local.local_models import (
    choose_local_model,
    describe_servers,
    describe_unusable_servers,
    find_servers,
)
from choir_local.settings import LocalSettings, ModelSource

OPENROUTER_SECRET = "openrouter-key"  # noqa: S105 - a secret's name
OPENAI_SECRET = "openai-key"  # noqa: S105 - a secret's name
ANTHROPIC_SECRET = "anthropic-key"  # noqa: S105 - a secret's name
GEMINI_SECRET = "gemini-key"  # noqa: S105 - a secret's name
OPENROUTER_MODEL = "anthropic/claude-sonnet-4.5"
OPENAI_MODEL = "gpt-5-mini"
ANTHROPIC_MODEL = "claude-sonnet-5-5"
ANTHROPIC_CONTEXT = 200_000
"""A fifth of the model's own: a longer prompt costs more and is answered more slowly."""
GEMINI_MODEL = "gemini-3.8-flash"
GEMINI_CONTEXT = 200_000
"""A fifth of the model's own, for the same reason."""
LOCAL_SOURCES: tuple[ModelSource, ...] = ("ollama", "lmstudio", "llamacpp", "vllm")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model, its description for users, and the secret values it needs."""

    config: ModelConfig
    description: str
    rehearsal: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What a user may want to know: the servers that were found, and how to choose another model."""


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
    if source in ("auto", "anthropic"):
        choice = _anthropic(settings, known_secrets)
        if choice is not None:
            return choice
    if source in ("auto", "gemini"):
        choice = _gemini(settings, known_secrets)
        if choice is not None:
            return choice
    unusable: tuple[str, ...] = ()
    if source in ("auto", *LOCAL_SOURCES):
        servers = await find_servers(settings, source)
        local = choose_local_model(servers, settings.model)
        if local is not None:
            notes = describe_servers(servers, local)
            return ModelChoice(local.config, local.description, notes=notes)
        unusable = describe_unusable_servers(servers)
    if source in ("auto", "rehearsal"):
        return _rehearsal(settings, rehearsal_url, unusable)
    what = "".join(f" ({line})" for line in unusable)
    raise StartupError(
        _(
            "CHOIR_MODEL_SOURCE is {source}, but there is no such model{what}: openrouter "
            "needs OPENROUTER_API_KEY, openai needs OPENAI_API_KEY, anthropic needs "
            "ANTHROPIC_API_KEY, gemini needs GEMINI_API_KEY, and ollama, lmstudio, llamacpp "
            "and vllm need the running server with a model that can call tools (CHOIR_MODEL, "
            "if it is set). Provide it, or unset CHOIR_MODEL_SOURCE."
        ).format(source=source, what=what)
    )


def environment_keys(settings: LocalSettings) -> dict[str, str]:
    """Return the providers' keys in the environment, by the names of their secrets."""
    keys = {
        OPENROUTER_SECRET: settings.openrouter_api_key,
        OPENAI_SECRET: settings.openai_api_key,
        ANTHROPIC_SECRET: settings.anthropic_api_key,
        GEMINI_SECRET: settings.gemini_api_key,
    }
    values = {name: key.get_secret_value() for name, key in keys.items() if key is not None}
    return {name: value for name, value in values.items() if value}


def _rehearsal(settings: LocalSettings, url: str, notes: tuple[str, ...]) -> ModelChoice:
    description = (
        _("the rehearsal model, following {score}").format(score=settings.score)
        if settings.score
        else _("the rehearsal model (scripted, no real intelligence)")
    )
    config = ModelConfig(provider="rehearsal", model="rehearsal", endpoint=url, temperature=None)
    return ModelChoice(config, description, rehearsal=True, notes=notes)


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
    return ModelChoice(config, _("{name} at OpenRouter").format(name=name), secrets=secret)


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


def _anthropic(settings: LocalSettings, known_secrets: Mapping[str, str]) -> ModelChoice | None:
    secret = _secret(ANTHROPIC_SECRET, settings.anthropic_api_key, known_secrets)
    if secret is None:
        return None
    name = settings.model or ANTHROPIC_MODEL
    config = ModelConfig(
        provider="anthropic",
        api="anthropic",
        model=name,
        endpoint=settings.anthropic_base_url,
        temperature=None,  # the API has none
        context_window=ANTHROPIC_CONTEXT,
        secret=ANTHROPIC_SECRET,
    )
    return ModelChoice(config, f"{name} at {settings.anthropic_base_url}", secrets=secret)


def _gemini(settings: LocalSettings, known_secrets: Mapping[str, str]) -> ModelChoice | None:
    secret = _secret(GEMINI_SECRET, settings.gemini_api_key, known_secrets)
    if secret is None:
        return None
    name = settings.model or GEMINI_MODEL
    config = ModelConfig(
        provider="google",
        api="gemini",
        model=name,
        temperature=None,  # Gemini 3 works best with its own
        context_window=GEMINI_CONTEXT,
        secret=GEMINI_SECRET,
    )
    return ModelChoice(config, _("{name} at Google").format(name=name), secrets=secret)


def _secret(
    name: str, from_environment: SecretStr | None, known_secrets: Mapping[str, str]
) -> dict[str, str] | None:
    value = from_environment.get_secret_value() if from_environment else known_secrets.get(name)
    return {name: value} if value else None
