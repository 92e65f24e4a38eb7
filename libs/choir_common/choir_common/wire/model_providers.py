"""The model providers with special properties, one row per provider.

Every provider is called through the OpenAI API; one without a row has the default properties.
"""

from dataclasses import dataclass


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


def model_provider(name: str) -> ModelProviderProperties:
    """Return the properties of a provider."""
    return MODEL_PROVIDERS.get(name, ModelProviderProperties())
