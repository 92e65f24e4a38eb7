"""What config.json says of embeddings reaches the memory service; what it does not say stays as it was."""

import json
from pathlib import Path

from choir_local.config_names import embedding_told, gateway_secrets
from choir_memory.settings import MemorySecrets, MemorySettings

SECTION = {"model": "m", "dimensions": 256, "endpoint": "http://e/v1", "secret": "their-key"}
KEYS = {"their-key": "k-1", "embedding-key": "k-2", "other": "k-3"}


def write(tmp_path: Path, **sections: object) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"agents": {}, "workspaces": {}, **sections}))
    return path


def test_the_section_and_the_key_it_names_are_handed_on_and_used(tmp_path: Path) -> None:
    told = embedding_told(write(tmp_path, embedding=SECTION), KEYS)
    secrets = MemorySecrets.model_validate_json(json.dumps(told))
    assert secrets.embedding_key is not None
    assert secrets.embedding_key.get_secret_value() == "k-1"
    settings = MemorySettings().told(secrets.embedding)
    assert (settings.embedding_endpoint, settings.model, settings.dimensions) == (
        "http://e/v1",
        "m",
        256,
    )


def test_the_environment_counts_more(tmp_path: Path) -> None:
    told = MemorySecrets.model_validate(embedding_told(write(tmp_path, embedding=SECTION), KEYS))
    mine = MemorySettings(embedding_endpoint="http://mine/v1", embedding_model="mine")
    assert mine.told(told.embedding) == mine


def test_without_the_section_only_a_deployments_own_key_is_handed_on(tmp_path: Path) -> None:
    assert embedding_told(write(tmp_path), KEYS) == {"embedding_key": "k-2"}
    assert embedding_told(write(tmp_path), {"other": "k-3"}) == {}


def test_a_file_that_does_not_fit_names_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, surprise=1)
    assert embedding_told(path, {}) == {} and gateway_secrets(path) == frozenset()
    assert embedding_told(tmp_path / "absent.json", {}) == {}
