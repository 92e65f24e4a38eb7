"""Choose the configured embedding model, and create embedders for stored models.

Called once by `app`; `embedders` requests an embedder per stored model. The key is sent to the configured
endpoint only: a stored model of another provider is not available.
"""

import hashlib
from dataclasses import dataclass

from pydantic import SecretStr

from choir_memory.embedding.embedder import Embedder
from choir_memory.embedding.model_store import StoredModel
from choir_memory.embedding.offline import OfflineEmbedder
from choir_memory.embedding.provider import ProviderEmbedder
from choir_memory.embedding.registry import ConfiguredModel
from choir_memory.settings import OFFLINE_DIMENSIONS, OFFLINE_MODEL, MemorySettings

OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class _EmbedderFactory:
    settings: MemorySettings
    key: str | None
    source: str

    def make(self, model: StoredModel) -> Embedder | None:
        """Return an embedder for a stored model, or None if it is not available here."""
        if (model.name, model.dimensions) == (OFFLINE_MODEL, OFFLINE_DIMENSIONS):
            return OfflineEmbedder(model.name, model.dimensions)
        endpoint = self.settings.embedding_endpoint
        if endpoint is None or model.source != self.source:
            return None
        return ProviderEmbedder(
            endpoint,
            self.key,
            model.name,
            model.dimensions,
            self.settings.embedding_timeout_s,
            self.settings.embedding_streams,
        )


def choose_model(settings: MemorySettings, key: SecretStr | None) -> ConfiguredModel:
    """Return the configured model, with a factory for embedders that use the provider's key."""
    endpoint = settings.embedding_endpoint
    # an endpoint may contain a password: only its hash is stored
    source = OFFLINE if endpoint is None else hashlib.sha256(endpoint.encode()).hexdigest()
    maker = _EmbedderFactory(settings, key.get_secret_value() if key else None, source)
    return ConfiguredModel(settings.model, settings.dimensions, source, maker.make)
