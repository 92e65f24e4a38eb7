"""What a start says of its model when nobody can be asked."""

import io
from pathlib import Path

import pytest
from pydantic import SecretStr
from rich.console import Console

from choir_common.errors import StartupError
from choir_common.wire.config import Config, ModelConfig
from choir_local.home import Home
from choir_local.model_choice import ModelChoice
from choir_local.model_record import record_choice
from choir_local.settings import LocalSettings
from choirctl.start.model_key import ModelKeySetup

BEFORE = ModelConfig(
    provider="openai", model="m", endpoint="http://127.0.0.1:1/v1", secret="openai-key"
)


def said(home: Path, *, key: str | None, address: str) -> str:
    """Return what a start prints, in a home that was started with a real model before."""
    (home / "data").mkdir(exist_ok=True)
    record_choice(Home(home).model_file, ModelChoice(BEFORE, "m at its old address"))
    words = io.StringIO()
    settings = LocalSettings(
        home=home,
        openai_api_key=SecretStr(key) if key else None,
        openrouter_api_key=None,
        openai_base_url=address,
        ollama_host="http://127.0.0.1:1",
        lmstudio_url="http://127.0.0.1:1",
        llamacpp_url="http://127.0.0.1:1",
        vllm_url="http://127.0.0.1:1",
        model="m",
        model_source="auto",
    )
    config = Config.model_validate({"agents": {}, "workspaces": {}, "models": {}})
    ModelKeySetup(Home(home), settings, config, Console(file=words, width=500)).ensure_stored(
        ask=False
    )
    return words.getvalue()


def test_another_address_than_at_the_last_start_is_said(tmp_path: Path) -> None:
    other = "http://127.0.0.1:2/v1"
    assert f"used m at its old address; this one uses m at {other}" in said(
        tmp_path, key="k", address=other
    )


def test_a_key_that_only_the_environment_holds_is_said(tmp_path: Path) -> None:
    words = said(tmp_path, key="k", address=BEFORE.endpoint)
    assert "choirctl secret set openai-key" in words
    (tmp_path / "secrets.json").write_text('{"openai-key": "k"}')
    assert "secret set" not in said(tmp_path, key="k", address=BEFORE.endpoint)


def test_a_missing_key_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="m at its old address"):
        said(tmp_path, key=None, address=BEFORE.endpoint)
