"""Values of config.json that services other than control need at their start.

Used by `services` and by the setup of the containers. An unreadable file gives no values: control validates
the file and reports its errors.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from choir_common.wire.config import Config, TranscriptionConfig
from choir_common.wire.memory_config import RetentionConfig
from choir_common.wire.model import JsonObject

# The provider's key when only the environment names the provider (CHOIR_EMBEDDING_ENDPOINT).
EMBEDDING_KEY = "embedding-key"


def gateway_secrets(config_file: Path) -> frozenset[str]:
    """Return the names of the secrets that configured gateways use."""
    config = read_config(config_file)
    gateways = config.gateways.values() if config else ()
    return frozenset(name for gateway in gateways for name in gateway.secrets)


def embedding_settings(config_file: Path, secret_values: Mapping[str, str]) -> JsonObject:
    """Return memory's embedding settings: the section `embedding` and the key it names."""
    config = read_config(config_file)
    section = config.embedding if config else None
    key = secret_values.get((section and section.secret) or EMBEDDING_KEY)
    return {
        **({"embedding": section.model_dump(mode="json")} if section else {}),
        **({"embedding_key": key} if key else {}),
    }


def memory_settings(config_file: Path, secret_values: Mapping[str, str]) -> JsonObject:
    """Return memory's other settings: its model and keys, and the agents' retention."""
    config = read_config(config_file)
    if config is None:
        return {}
    model = config.models.get(config.memory.model or "")
    key = secret_values.get((model and model.secret) or "")
    names = [config.models[name].secret for name in model.fallback] if model else []
    fallback_keys: JsonObject = {
        name: secret_values[name] for name in names if name and name in secret_values
    }
    settings: JsonObject = {
        agent_id: agent.retention.model_dump(mode="json")
        for agent_id, agent in config.agents.items()
        if agent.retention != RetentionConfig()
    }
    return {
        **({"model": model.model_dump(mode="json")} if model else {}),
        **({"model_key": key} if key else {}),
        **({"fallback_keys": fallback_keys} if fallback_keys else {}),
        **({"retention": settings} if settings else {}),
    }


def own_transcription(config_file: Path) -> TranscriptionConfig | None:
    """Return the transcription entry whose model is served here."""
    config = read_config(config_file)
    entries = config.transcription.values() if config else ()
    return next((entry for entry in entries if entry.model_dir), None)


def read_config(config_file: Path) -> Config | None:
    """Return the configuration, or None if it cannot be read."""
    try:
        return Config.model_validate_json(config_file.read_bytes())
    except (OSError, ValidationError):
        return None
