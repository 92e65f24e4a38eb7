"""Which model answers as `default`."""

import socket
from pathlib import Path

import pytest
from pydantic import SecretStr

from choir_common.errors import StartupError
from choir_local.model_choice import ModelChoice, choose_model
from choir_local.settings import LocalSettings, ModelSource

REHEARSAL = "http://127.0.0.1:1/v1"


def nowhere() -> str:
    """Return the address of a port where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def chosen(
    *,
    openrouter: str | None = None,
    openai: str | None = None,
    known: dict[str, str] | None = None,
    score: Path | None = None,
    source: ModelSource = "auto",
    model: str = "",
) -> ModelChoice:
    settings = LocalSettings(
        openrouter_api_key=SecretStr(openrouter) if openrouter else None,
        openai_api_key=SecretStr(openai) if openai else None,
        ollama_host=nowhere(),
        score=score,
        model_source=source,
        model=model,
    )
    return await choose_model(settings, known or {}, REHEARSAL)


async def test_a_key_in_the_environment_decides_and_travels_as_a_named_secret() -> None:
    choice = await chosen(openrouter="or-key", openai="oa-key")
    assert choice.config.provider == "openrouter"
    assert choice.secrets == {"openrouter-key": "or-key"}
    assert choice.config.secret == "openrouter-key"


async def test_a_key_among_the_secrets_is_as_good() -> None:
    choice = await chosen(known={"openai-key": "oa-key"}, model="gpt-x")
    assert (choice.config.provider, choice.config.model) == ("openai", "gpt-x")


async def test_nothing_configured_means_the_rehearsal_model() -> None:
    choice = await chosen()
    assert choice.rehearsal
    assert choice.config.endpoint == REHEARSAL
    assert "no real intelligence" in choice.description


async def test_a_score_means_the_rehearsal_model_whatever_keys_there_are() -> None:
    choice = await chosen(openai="oa-key", score=Path("/plays/one.json"))
    assert choice.rehearsal
    assert choice.secrets == {}


async def test_a_source_that_is_demanded_and_not_there_is_an_error() -> None:
    with pytest.raises(StartupError, match="CHOIR_MODEL_SOURCE is ollama"):
        await chosen(source="ollama")
