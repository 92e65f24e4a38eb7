"""The configured embedding model, and the factory of embedders for stored models.

The key is sent to the configured endpoint only: a stored model of another provider is not available.
"""

import hashlib
from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr

from choir_memory.embedding.embedder import Embedder
from choir_memory.embedding.model_store import StoredModel
from choir_memory.embedding.offline import OfflineEmbedder
from choir_memory.embedding.provider import ProviderEmbedder
from choir_memory.settings import OFFLINE_DIMENSIONS, OFFLINE_MODEL, MemorySettings
from choir_memory.usage.reporter import UsageReporter

OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """The embedding model that the settings name."""

    name: str
    dimensions: int
    source: str
    """Fingerprint of the provider; models with the same one are available with the same key."""


class EmbedderFactory(Protocol):
    """Factory of embedders; it knows which model is configured."""

    @property
    def configured(self) -> ConfiguredModel: ...

    def create(self, model: StoredModel) -> Embedder | None:
        """Return an embedder for a stored model, or None if this process has no access to it."""
        ...


class SettingsEmbedderFactory:
    """Factory of the offline embedder, and of embedders of the provider in the settings."""

    def __init__(
        self, settings: MemorySettings, key: SecretStr | None, usage: UsageReporter
    ) -> None:
        self._usage = usage
        self._settings = settings
        self._key = key.get_secret_value() if key else None
        endpoint = settings.embedding_endpoint
        # an endpoint may contain a password: only its hash is stored
        source = OFFLINE if endpoint is None else hashlib.sha256(endpoint.encode()).hexdigest()
        self.configured = ConfiguredModel(settings.model, settings.dimensions, source)

    def create(self, model: StoredModel) -> Embedder | None:
        """Return an embedder for a stored model, or None if this process has no access to it."""
        if (model.name, model.dimensions) == (OFFLINE_MODEL, OFFLINE_DIMENSIONS):
            return OfflineEmbedder(model.name, model.dimensions)
        endpoint = self._settings.embedding_endpoint
        if endpoint is None or model.source != self.configured.source:
            return None
        return ProviderEmbedder(
            endpoint=endpoint,
            key=self._key,
            name=model.name,
            dimensions=model.dimensions,
            timeout_s=self._settings.embedding_timeout_s,
            usage=self._usage,
            max_concurrency=self._settings.embedding_streams,
        )
