"""Settings and secrets of the memory service, read once at startup."""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from choir_common.addresses import HOST_AND_PORT_PATTERN, WEB_ADDRESS_PATTERN
from choir_common.settings import BusServiceSettings, ServiceSecrets
from choir_common.wire.config import EmbeddingConfig, ModelConfig
from choir_common.wire.memory_config import RetentionConfig
from choir_common.wire.model import AgentName

OFFLINE_MODEL = "all-MiniLM-L6-v2-int8"
OFFLINE_DIMENSIONS = 384
PROVIDER_MODEL = "text-embedding-3-small"
PROVIDER_DIMENSIONS = 1536
MAX_PORT = 65_535


class MemorySecrets(ServiceSecrets):
    """The JSON object in `CHOIR_SECRETS_FILE`."""

    postgres_password: SecretStr | None = None
    postgres_dsn: str | None = None
    """Postgres DSN from config.json; takes precedence over the environment."""
    nats_key: SecretStr | None = None
    """Seed of memory's nkey; None if NATS needs none."""
    embedding_key: SecretStr | None = None
    """Bearer key of the embedding provider; not needed for a local one."""
    embedding: EmbeddingConfig | None = None
    """Section `embedding` of config.json; an endpoint set in the environment takes precedence."""
    model: ModelConfig | None = None
    """The language model that `memory.model` of config.json names. None: no model is called."""
    model_key: SecretStr | None = None
    """API key of that model. It is not sent to any agent."""
    fallback_keys: dict[str, SecretStr] = Field(default_factory=dict)
    """API keys of the models that it falls back to, by the names of their secrets."""
    retention: dict[AgentName, RetentionConfig] = Field(default_factory=dict)
    """Agents with limited retention; all others keep everything."""

    def values(self) -> list[str]:
        """Return every secret value, for the redactor."""
        own = (self.postgres_password, self.nats_key, self.embedding_key, self.model_key)
        secrets = (*own, *self.fallback_keys.values())
        return [secret.get_secret_value() for secret in secrets if secret is not None]

    def model_keys(self) -> dict[str, str]:
        """Return the keys of the language model and its fallbacks, by the names of their secrets."""
        keys = {name: key.get_secret_value() for name, key in self.fallback_keys.items()}
        if self.model is not None and self.model.secret and self.model_key is not None:
            keys[self.model.secret] = self.model_key.get_secret_value()
        return keys


class MemorySettings(BusServiceSettings):
    """Settings of the memory service; each is set as `CHOIR_<FILE_NAME_PATTERN>`."""

    postgres_dsn: str = "postgresql://choir@127.0.0.1:5432/choir"
    """Address of Postgres with pgvector, without the password."""
    postgres_connections: int = Field(default=8, ge=2, le=100)
    """Size of the connection pool. Two cores serve no more searches at once; the embedding queue
    uses one."""
    memory_socket: Path | None = None
    """Unix socket of the health endpoints; default: `socks/memory.sock` below the home directory."""
    memory_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """host:port for the health endpoints instead of the socket (used in containers)."""

    embedding_endpoint: str | None = Field(default=None, pattern=WEB_ADDRESS_PATTERN)
    """Base URL of an OpenAI-compatible API; without it the offline model is used."""
    embedding_model: str | None = Field(default=None, min_length=1)
    """Name of the provider's model; default: text-embedding-3-small."""
    embedding_dimensions: int | None = Field(default=None, ge=1, le=4000)
    """Length of the vectors; 4,000 is the maximum that pgvector can index as halfvec."""
    embedding_timeout_s: float = Field(default=30.0, gt=0, le=300)
    """Timeout in seconds of one batch at the provider; a batch of 32 rarely takes five."""
    embedding_tick_s: float = Field(default=0.2, gt=0, le=60)
    """Seconds to wait for more new documents before an incomplete batch is embedded."""
    embedding_poll_s: float = Field(default=1.0, gt=0, le=600)
    """Seconds between polls for work that was not announced (after a crash, or from another replica)."""
    embedding_retry_s: float = Field(default=1.0, gt=0, le=60)
    """Seconds before the first of three retries; the delay doubles with each further retry."""
    embedding_streams: int = Field(default=4, ge=1, le=32)
    """Concurrent calls to the provider. Most answer in 0.2 s, so four embed about 600 documents/s.

    The same number of query calls runs at once; further queries wait and are batched.
    """
    embedding_grace_s: float = Field(default=30.0, gt=0, le=86_400)
    """Seconds between the switch to a new model and the deletion of old vectors; replicas notice
    within two."""
    embedding_sweep_s: float = Field(default=120.0, gt=0, le=86_400)
    """Seconds before a document that used up its retries is tried again."""
    query_embedding_deadline_s: float = Field(default=1.5, gt=0, le=30)
    """Seconds a search waits for the vector of its query before it continues with full text only."""

    round_s: float = Field(default=3_600.0, gt=0, le=86_400)
    """Seconds between maintenance passes (summaries, retention, extraction that was missed). An hour: none
    of it is urgent."""

    extraction_poll_s: float = Field(default=15.0, gt=0, le=3_600)
    """Seconds between polls for turns that wait for extraction; one indexed query."""

    search_cache_mb: int | None = Field(default=None, ge=0, le=4_096)
    """Memory for small spaces that are searched often; 0 keeps none. Default: 48 MB with a provider, and 4 MB
    beside the offline model, which needs most of the service's 180 MB. 1,000 documents take 1.9 MB with 384
    dimensions, 6.5 MB with 1,536; one space takes half of it at most."""

    upkeep_s: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds between passes over indexes, statistics and old records; a pass without work takes 20 ms."""
    index_from: int = Field(default=5_000, ge=10)
    """Number of vectors from which a space gets an HNSW index; below it an exact scan is as fast."""
    index_build_mb: int = Field(default=256, ge=16, le=65_536)
    """Memory for an index build: 256 MB suffice for 150,000 vectors of 384 dimensions; more are
    built slowly."""
    receipts_days: int = Field(default=30, ge=1)
    """Days that search receipts are kept; long enough to look into a question about a past search."""
    audit_days: int = Field(default=365, ge=1)
    """Days that the audit log is kept; a year, the usual period of an audit."""
    operations_days: int = Field(default=30, ge=1)
    """Days that a repeated call_id returns its stored answer; repeats normally come within minutes."""

    folder_scan_s: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds between scans of a followed folder; longer for a folder whose listing takes over three
    seconds."""
    file_max_mb: int = Field(default=50, ge=1, le=1_000)
    """Larger files are not read: those of followed folders, and those that are uploaded."""
    file_memory_mb: int = Field(default=512, ge=256, le=65_536)
    """Memory of the process that reads one file, including about 40 MB of programs and libraries."""
    file_cpu_s: int = Field(default=30, ge=1, le=3_600)
    """Seconds of CPU time for reading one file; a book of 1,000 pages takes five."""

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

    def with_config(self, embedding: EmbeddingConfig | None) -> Self:
        """Return these settings with the embedding section of config.json, unless the environment
        sets an endpoint."""
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
        """Return the Unix socket of the health endpoints, used unless `memory_http` is set."""
        return self.memory_socket or self.home / "socks" / "memory.sock"

    @property
    def search_cache_bytes(self) -> int:
        """Return the memory for spaces that are searched often, in bytes."""
        if self.search_cache_mb is not None:
            return self.search_cache_mb * 1024 * 1024
        return (6 if self.embedding_endpoint is None else 48) * 1024 * 1024

    @property
    def model(self) -> str:
        """Return the name of the embedding model in use."""
        if self.embedding_endpoint is None:
            return OFFLINE_MODEL
        return self.embedding_model or PROVIDER_MODEL

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors of that model."""
        if self.embedding_endpoint is None:
            return OFFLINE_DIMENSIONS
        return self.embedding_dimensions or PROVIDER_DIMENSIONS
