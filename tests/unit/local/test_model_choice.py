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
    anthropic: str | None = None,
    gemini: str | None = None,
    known: dict[str, str] | None = None,
    score: Path | None = None,
    source: ModelSource = "auto",
    model: str = "",
) -> ModelChoice:
    settings = LocalSettings(
        openrouter_api_key=SecretStr(openrouter) if openrouter else None,
        openai_api_key=SecretStr(openai) if openai else None,
        anthropic_api_key=SecretStr(anthropic) if anthropic else None,
        gemini_api_key=SecretStr(gemini) if gemini else None,
        ollama_host=nowhere(),
        lmstudio_url=nowhere(),
        llamacpp_url=nowhere(),
        vllm_url=nowhere(),
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


async def test_an_anthropic_key_selects_its_own_api_after_the_other_keys() -> None:
    choice = await chosen(anthropic="an-key")
    assert (choice.config.api, choice.config.provider) == ("anthropic", "anthropic")
    assert choice.config.endpoint == "https://api.anthropic.com"
    assert choice.secrets == {"anthropic-key": "an-key"}
    assert (await chosen(anthropic="an-key", openai="oa-key")).config.provider == "openai"
    demanded = await chosen(anthropic="an-key", openai="oa-key", source="anthropic")
    assert demanded.config.provider == "anthropic"
    assert (await chosen(known={"anthropic-key": "an-key"})).config.provider == "anthropic"


async def test_a_key_of_gemini_selects_its_own_api_after_anthropics() -> None:
    choice = await chosen(gemini="g-key")
    assert (choice.config.api, choice.config.secret) == ("gemini", "gemini-key")
    assert choice.secrets == {"gemini-key": "g-key"}
    assert (await chosen(gemini="g-key", anthropic="an-key")).config.api == "anthropic"
    assert (
        await chosen(gemini="g-key", anthropic="an-key", source="gemini")
    ).config.api == "gemini"


@pytest.mark.parametrize("name", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_a_key_of_gemini_has_two_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "g-key")
    key = LocalSettings().gemini_api_key
    assert key is not None and key.get_secret_value() == "g-key"


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
