"""What config.json says of embeddings reaches the memory service; what it does not say stays as it was."""

import json
from pathlib import Path

from choir_local.config_values import embedding_settings, gateway_secrets, memory_settings
from choir_memory.settings import MemorySecrets, MemorySettings

SECTION = {"model": "m", "dimensions": 256, "endpoint": "http://e/v1", "secret": "their-key"}
KEYS = {"their-key": "k-1", "embedding-key": "k-2", "other": "k-3"}


def write(tmp_path: Path, **sections: object) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"agents": {}, "workspaces": {}, **sections}))
    return path


def test_the_section_and_the_key_it_names_are_handed_on_and_used(tmp_path: Path) -> None:
    told = embedding_settings(write(tmp_path, embedding=SECTION), KEYS)
    secrets = MemorySecrets.model_validate_json(json.dumps(told))
    assert secrets.embedding_key is not None
    assert secrets.embedding_key.get_secret_value() == "k-1"
    settings = MemorySettings().with_config(secrets.embedding)
    assert (settings.embedding_endpoint, settings.model, settings.dimensions) == (
        "http://e/v1",
        "m",
        256,
    )


def test_the_environment_counts_more(tmp_path: Path) -> None:
    told = MemorySecrets.model_validate(
        embedding_settings(write(tmp_path, embedding=SECTION), KEYS)
    )
    mine = MemorySettings(embedding_endpoint="http://mine/v1", embedding_model="mine")
    assert mine.with_config(told.embedding) == mine


def test_without_the_section_only_a_deployments_own_key_is_handed_on(tmp_path: Path) -> None:
    assert embedding_settings(write(tmp_path), KEYS) == {"embedding_key": "k-2"}
    assert embedding_settings(write(tmp_path), {"other": "k-3"}) == {}


def test_a_file_that_does_not_fit_names_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, surprise=1)
    assert embedding_settings(path, {}) == {} and gateway_secrets(path) == frozenset()
    assert embedding_settings(tmp_path / "absent.json", {}) == {}


def test_memory_is_told_its_own_model_with_its_key_and_who_forgets_what(tmp_path: Path) -> None:
    models = {
        "small": {
            "model": "s-1",
            "endpoint": "http://m/v1",
            "secret": "other",
            "fallback": ["large"],
        },
        "large": {"model": "l-1", "endpoint": "http://m/v1", "secret": "their-key"},
    }
    defaults = {"workspace": "w", "llm": "large", "dm": "d"}
    agents = {
        "brief": {"defaults": defaults, "retention": {"turns": 30}},
        "main": {"defaults": defaults},
    }
    path = write(tmp_path, models=models, memory={"model": "small"}, agents=agents)
    secrets = MemorySecrets.model_validate_json(json.dumps(memory_settings(path, KEYS)))
    assert secrets.model is not None and secrets.model.model == "s-1"
    assert secrets.model_key is not None and secrets.model_key.get_secret_value() == "k-3"
    assert {name: key.get_secret_value() for name, key in secrets.fallback_keys.items()} == {
        "their-key": KEYS["their-key"]
    }
    assert secrets.model_keys() == {"other": "k-3", "their-key": KEYS["their-key"]}
    assert {name: kept.turns for name, kept in secrets.retention.items()} == {"brief": 30}
    assert memory_settings(write(tmp_path, models=models), KEYS) == {}
    assert memory_settings(tmp_path / "absent.json", KEYS) == {}
