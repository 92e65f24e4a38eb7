"""Choose the embedding model that is configured, and embedders for the models that are stored.

Called by `app` once; `embedders` asks for an embedder per stored model. A key goes to the configured
endpoint and nowhere else: a model of another provider cannot be had any more.
"""

import hashlib
from dataclasses import dataclass

from pydantic import SecretStr

from choir_memory.embedding.embedders import Choice
from choir_memory.embedding.model_store import Model
from choir_memory.embedding.offline import OfflineEmbedder
from choir_memory.embedding.port import Embedder
from choir_memory.embedding.provider import ProviderEmbedder
from choir_memory.settings import OFFLINE_DIMENSIONS, OFFLINE_MODEL, MemorySettings

OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class _Maker:
    settings: MemorySettings
    key: str | None
    source: str

    def make(self, model: Model) -> Embedder | None:
        """Return an embedder for a stored model, None where it cannot be had here."""
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


def choose(settings: MemorySettings, key: SecretStr | None) -> Choice:
    """Return what the settings say, with the key of its provider."""
    endpoint = settings.embedding_endpoint
    # an address may hold a password, and is stored nowhere
    source = OFFLINE if endpoint is None else hashlib.sha256(endpoint.encode()).hexdigest()
    maker = _Maker(settings, key.get_secret_value() if key else None, source)
    return Choice(settings.model, settings.dimensions, source, maker.make)
