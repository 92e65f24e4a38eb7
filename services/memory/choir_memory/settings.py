"""Settings and secrets of the memory service. Read by `__main__` once, passed down by `app`."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from choir_common.addresses import HOST_AND_PORT_PATTERN, WEB_ADDRESS_PATTERN
from choir_common.settings import ServiceSettings
from choir_common.wire.config import EmbeddingConfig, ModelConfig, RetentionConfig
from choir_common.wire.model import AgentName

OFFLINE_MODEL = "all-MiniLM-L6-v2-int8"
OFFLINE_DIMENSIONS = 384
PROVIDER_MODEL = "text-embedding-3-small"
PROVIDER_DIMENSIONS = 1536
MAX_PORT = 65_535


class MemorySecrets(BaseModel):
    """The JSON object in `CHOIR_SECRETS_FILE`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    postgres_password: SecretStr | None = None
    postgres_dsn: str | None = None
    """The database that config.json names; it counts more than the environment."""
    nats_token: SecretStr | None = None
    embedding_key: SecretStr | None = None
    """Bearer key of the embedding provider; a local one needs none."""
    embedding: EmbeddingConfig | None = None
    """What config.json says; an endpoint in the environment counts more."""
    model: ModelConfig | None = None
    """The language model that `memory.model` of config.json names; none: nothing is asked of one."""
    model_key: SecretStr | None = None
    """Its key, which no agent is told by this."""
    retention: dict[AgentName, RetentionConfig] = Field(default_factory=dict)
    """The agents that do not keep everything for ever."""


class MemorySettings(ServiceSettings):
    """What can be set about the memory service, each as `CHOIR_<NAME>`."""

    postgres_dsn: str = "postgresql://choir@127.0.0.1:5432/choir"
    """Where Postgres with pgvector listens, without the password."""
    postgres_connections: int = Field(default=8, ge=2, le=100)
    """Size of the pool; two cores serve no more searches at once, and the queue keeps one."""
    memory_socket: Path | None = None
    """Unix socket of the health routes; the default is `socks/memory.sock` below the home."""
    memory_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """host:port for the health routes instead of the socket (containers)."""

    embedding_endpoint: str | None = Field(default=None, pattern=WEB_ADDRESS_PATTERN)
    """Base URL of an OpenAI-compatible API; without it the offline model is used."""
    embedding_model: str | None = Field(default=None, min_length=1)
    """The provider's model; the spec's default is text-embedding-3-small."""
    embedding_dimensions: int | None = Field(default=None, ge=1, le=4000)
    """Length of its vectors; 4,000 is the most pgvector can index as halfvec."""
    embedding_timeout_s: float = Field(default=30.0, gt=0, le=300)
    """Seconds one batch may take at the provider; a batch of 32 rarely takes five."""
    embedding_tick_s: float = Field(default=0.2, gt=0, le=60)
    """Seconds a lone new document waits for others to share its batch."""
    embedding_poll_s: float = Field(default=1.0, gt=0, le=600)
    """Seconds between looks for work that nobody announced (a crash, another replica)."""
    embedding_retry_s: float = Field(default=1.0, gt=0, le=60)
    """Seconds before the first of three retries; the others wait twice as long each (spec 11.9)."""
    embedding_streams: int = Field(default=4, ge=1, le=32)
    """Batches sent to a provider at a time; most take 0.2 s for one, so four make 600 documents/s. Of
    questions as many go alone, and those that wait go together."""
    embedding_grace_s: float = Field(default=30.0, gt=0, le=86_400)
    """Seconds from the switch to a new model until old vectors are dropped; replicas notice within two."""
    embedding_sweep_s: float = Field(default=120.0, gt=0, le=86_400)
    """Seconds before a document whose retries are used up is tried again."""
    query_embedding_deadline_s: float = Field(default=1.5, gt=0, le=30)
    """Seconds a search waits for its query's vector before it goes on with full text alone."""

    round_s: float = Field(default=3_600.0, gt=0, le=86_400)
    """Seconds between two rounds that sum up days that are over; nobody waits for yesterday by the minute."""

    upkeep_s: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds between rounds of upkeep (indexes, statistics, old traces); an idle one takes 20 ms."""
    index_from: int = Field(default=5_000, ge=10)
    """Vectors from which on a space gets an HNSW index; below, an exact scan is as fast."""
    index_build_mb: int = Field(default=256, ge=16, le=65_536)
    """Memory an index may take while it is made: 150,000 vectors of 384 dimensions; more are made slowly."""
    receipts_days: int = Field(default=30, ge=1)
    """Days the receipts of searches are kept; the longest anybody asked after one, with a margin."""
    audit_days: int = Field(default=365, ge=1)
    """Days it is kept who did what to whose memory; a year, as audits are asked for by the year."""
    operations_days: int = Field(default=30, ge=1)
    """Days a repeated call_id gets its old answer; who repeats does so within minutes."""

    @field_validator("memory_http")
    @classmethod
    def _port_exists(cls, value: str | None) -> str | None:
        if value is not None and int(value.rpartition(":")[2]) > MAX_PORT:
            raise ValueError(f"a port is at most {MAX_PORT}; set CHOIR_MEMORY_HTTP to host:port")
        return value

    @model_validator(mode="after")
    def _model_needs_endpoint(self) -> Self:
        if self.embedding_endpoint is None and (self.embedding_model or self.embedding_dimensions):
            raise ValueError(
                "CHOIR_EMBEDDING_MODEL and CHOIR_EMBEDDING_DIMENSIONS describe the model at "
                "CHOIR_EMBEDDING_ENDPOINT, which is not set"
            )
        return self

    def told(self, embedding: EmbeddingConfig | None) -> Self:
        """Return these settings with what config.json says of embeddings, unless they say it themselves."""
        if embedding is None or self.embedding_endpoint is not None:
            return self
        return self.model_copy(
            update={
                "embedding_endpoint": embedding.endpoint,
                "embedding_model": embedding.model,
                "embedding_dimensions": embedding.dimensions,
            }
        )

    @property
    def health_socket(self) -> Path:
        """Return where the health routes listen unless `memory_http` is set."""
        return self.memory_socket or self.home / "socks" / "memory.sock"

    @property
    def model(self) -> str:
        """Return the name of the embedding model in use."""
        if self.embedding_endpoint is None:
            return OFFLINE_MODEL
        return self.embedding_model or PROVIDER_MODEL

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""
        if self.embedding_endpoint is None:
            return OFFLINE_DIMENSIONS
        return self.embedding_dimensions or PROVIDER_DIMENSIONS
