"""A home remembers its real model, so that the scripted one does not answer in its place."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from choir_common.wire.config import Config, ModelConfig
from choir_local.model_choice import ModelChoice
from choir_local.model_record import (
    configured_model,
    find_missing_model,
    read_record,
    record_choice,
    rehearsal_replaces_model_error,
)
from choir_local.settings import LocalSettings, ModelSource

REAL = ModelConfig(
    provider="openai", model="gpt-5-mini", endpoint="http://127.0.0.1:1/v1", secret="openai-key"
)
SCRIPTED = ModelChoice(
    ModelConfig(provider="rehearsal", model="rehearsal", endpoint="http://127.0.0.1:2/v1"),
    "the rehearsal model",
    rehearsal=True,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The record of a home that was started with a real model, and then with the rehearsal model."""
    path = tmp_path / "model.json"
    record_choice(path, ModelChoice(REAL, "gpt-5-mini at OpenAI"))
    record_choice(path, SCRIPTED)
    return path


def settings(source: ModelSource = "auto", score: Path | None = None) -> LocalSettings:
    return LocalSettings(model_source=source, score=score, openai_api_key=SecretStr("k"))


def test_a_rehearsal_in_place_of_the_real_model_is_refused_with_the_way_out(file: Path) -> None:
    missing = find_missing_model(file, SCRIPTED, settings())
    assert missing is not None and missing.config == REAL
    message = rehearsal_replaces_model_error(missing).message
    for expected in ("gpt-5-mini at OpenAI", "choirctl secret set openai-key", "MODEL_SOURCE"):
        assert expected in message


def test_a_rehearsal_that_was_asked_for_is_not_refused(file: Path) -> None:
    assert find_missing_model(file, SCRIPTED, settings("rehearsal")) is None
    assert find_missing_model(file, SCRIPTED, settings(score=Path("/plays/one.json"))) is None


def test_a_home_that_only_rehearsed_goes_on_rehearsing(tmp_path: Path) -> None:
    record_choice(tmp_path / "model.json", SCRIPTED)
    assert read_record(tmp_path / "model.json") is None
    assert find_missing_model(tmp_path / "model.json", SCRIPTED, settings()) is None


def a_config(llm: str, core: str | None = None, **models: dict[str, Any]) -> Config:
    defaults = {"workspace": "w", "llm": llm, "core_llm": core, "dm": "d"}
    shape = {"agents": {"main": {"defaults": defaults}}, "workspaces": {}, "models": models}
    return Config.model_validate(shape)


def test_a_model_in_the_configuration_counts_before_any_other() -> None:
    entry = {"model": "own", "endpoint": "http://127.0.0.1:3/v1", "secret": "openai-key"}
    for config in (a_config("default", default=entry), a_config("mine", mine=entry)):
        choice = configured_model(config, settings())
        assert choice is not None and choice.config.model == "own" and not choice.rehearsal
        # the configuration may name a key that only the environment holds
        assert choice.secrets == {"openai-key": "k"}
    assert configured_model(a_config("mine", "default", mine=entry), settings()) is None
    assert configured_model(a_config("default"), settings()) is None
