"""Settings of the embedded stack; the only reader of its environment.

Read by choirctl and `__main__`. The services read their own settings, which `services` writes for them.
"""

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import SettingsConfigDict

from choir_common.addresses import TlsMode
from choir_common.settings import ServiceSettings

ModelSource = Literal[
    "auto",
    "openrouter",
    "openai",
    "anthropic",
    "gemini",
    "ollama",
    "lmstudio",
    "llamacpp",
    "vllm",
    "rehearsal",
]


class LocalSettings(ServiceSettings):
    """Settings of the embedded stack."""

    # An empty variable means unset: CI systems and shells leave such variables behind.
    model_config = SettingsConfigDict(env_ignore_empty=True, populate_by_name=True)

    http_port: int = Field(default=9400, ge=0, le=65535)
    """TCP port of control on loopback (CHOIR_HTTP_PORT); 0 selects a free one."""
    http_host: str = "127.0.0.1"
    """Address of that port (CHOIR_HTTP_HOST); control reads the same variable, and here it is only printed.

    """
    tls: TlsMode = "auto"
    """Whether that port uses TLS (CHOIR_TLS); control reads the same variable."""
    tls_cert: str = ""
    """The operator's certificate, if any (CHOIR_TLS_CERT); control reads the same variable."""
    nats_port: int = Field(default=0, ge=0, le=65535)
    """TCP port of the embedded bus on loopback; 0 selects a free one, so that stacks do not collide."""
    rehearsal_port: int = Field(default=0, ge=0, le=65535)
    """TCP port of the rehearsal model on loopback; 0 selects a free one."""
    score: Path | None = None
    """Score of the rehearsal model (CHOIR_SCORE, --score); if set, the rehearsal model is used."""
    postgres_dsn: str = ""
    """An external database, as in containers (CHOIR_POSTGRES_DSN); read only by `choirctl db`."""
    pg_bin: Path | None = None
    """Directory with `postgres` and `initdb`; if unset, the system's or the wheel's are used."""
    nats_bin: Path | None = None
    """The nats-server program; if unset, the wheel's is used."""
    model_source: ModelSource = "auto"
    """Provider of the model `default`; auto selects the first that is configured."""
    model: str = ""
    """Name of the model at that provider; if empty, a default is used."""
    openrouter_api_key: SecretStr | None = Field(
        default=None, validation_alias="OPENROUTER_API_KEY"
    )
    """API key of openrouter.ai; the secret `openrouter-key` in secrets.json has the same effect."""
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    """API key of OpenAI; the secret `openai-key` in secrets.json has the same effect."""
    openai_base_url: str = Field(
        default="https://api.openai.com/v1", validation_alias="OPENAI_BASE_URL"
    )
    """Base URL for the OpenAI key: any server with an OpenAI-compatible API."""
    anthropic_api_key: SecretStr | None = Field(default=None, validation_alias="ANTHROPIC_API_KEY")
    """API key of Anthropic; the secret `anthropic-key` in secrets.json has the same effect."""
    anthropic_base_url: str = Field(
        default="https://api.anthropic.com", validation_alias="ANTHROPIC_BASE_URL"
    )
    """Base URL for the Anthropic key: any server with the Messages API."""
    gemini_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("GEMINI_API_KEY", "GOOGLE_API_KEY")
    )
    """API key of the Gemini API; the secret `gemini-key` in secrets.json has the same effect."""
    ollama_host: str = Field(default="http://127.0.0.1:11434", validation_alias="OLLAMA_HOST")
    """Address of a local Ollama; Ollama's own default."""
    lmstudio_url: str = "http://127.0.0.1:1234"
    """Address of a local LM Studio (CHOIR_LMSTUDIO_URL)."""
    llamacpp_url: str = "http://127.0.0.1:8080"
    """Address of a local llama.cpp server (CHOIR_LLAMACPP_URL)."""
    vllm_url: str = "http://127.0.0.1:8000"
    """Address of a local vLLM (CHOIR_VLLM_URL)."""

    def as_environment(self) -> dict[str, str]:
        """Return the variables from which another process reads these settings; keys are left out."""
        paths = {"CHOIR_SCORE": self.score, "CHOIR_PG_BIN": self.pg_bin}
        paths["CHOIR_NATS_BIN"] = self.nats_bin
        return {
            "CHOIR_HTTP_PORT": str(self.http_port),
            "CHOIR_NATS_PORT": str(self.nats_port),
            "CHOIR_REHEARSAL_PORT": str(self.rehearsal_port),
            "CHOIR_MODEL_SOURCE": self.model_source,
            "CHOIR_MODEL": self.model,
            "CHOIR_LOG_LEVEL": self.log_level,
            **{name: str(path.absolute()) for name, path in paths.items() if path is not None},
        }
