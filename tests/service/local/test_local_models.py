"""Model servers of this machine: which ones are found, and which of their models is chosen."""

import socket
from contextlib import AsyncExitStack

import pytest

from choir_common.errors import StartupError
from choir_local.model_choice import ModelChoice, choose_model
from choir_local.settings import LocalSettings, ModelSource
from choir_models.context_windows import ContextWindows
from choir_testing.providers.local_servers import (
    FakeLocalServer,
    fake_llamacpp,
    fake_lmstudio,
    fake_vllm,
    run_local_server,
)
from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.server import run_provider


def nowhere() -> str:
    """Return the address of a port where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def chosen(source: ModelSource = "auto", model: str = "", **addresses: str) -> ModelChoice:
    names = ("ollama_host", "lmstudio_url", "llamacpp_url", "vllm_url")
    everywhere = {name: addresses.get(name, nowhere()) for name in names}
    settings = LocalSettings.model_validate(
        {"model_source": source, "model": model, "openai_api_key": None, **everywhere}
    )
    return await choose_model(settings, {}, "http://127.0.0.1:1/v1")


async def test_ollama_is_called_over_its_own_api_and_its_server_is_named() -> None:
    async with run_provider(FakeOllama(model="qwen3:8b")) as ollama:
        choice = await chosen(ollama_host=ollama.endpoint.removeprefix("http://"))
    assert (choice.config.api, choice.config.provider) == ("ollama", "ollama")
    assert (choice.config.model, choice.config.endpoint) == ("qwen3:8b", ollama.endpoint)
    assert choice.description == "qwen3:8b at the local Ollama"
    assert choice.config.context_window is None and ollama.loads == 0
    assert choice.notes == (f"found Ollama at {ollama.endpoint}: qwen3:8b",)


@pytest.mark.parametrize(
    ("server", "setting", "name", "tokens"),
    [
        (fake_lmstudio("q", loaded=8_192), "lmstudio_url", "LM Studio", 8_192),
        (fake_llamacpp("q", slot=16_384), "llamacpp_url", "llama.cpp", 16_384),
        (fake_vllm("q", longest=32_768), "vllm_url", "vLLM", 32_768),
    ],
)
async def test_each_server_is_found_and_its_context_length_obeyed(
    server: FakeLocalServer, setting: str, name: str, tokens: int
) -> None:
    async with run_local_server(server):
        choice = await chosen(**{setting: server.address})
        window = await ContextWindows().find(choice.config, None)
        configured = choice.config.model_copy(update={"context_window": 100_000})
        bounded = await ContextWindows().find(configured, None)
        less = await ContextWindows().find(
            choice.config.model_copy(update={"context_window": 4_000}), None
        )
    assert choice.description == f"q at the local {name}"
    assert (choice.config.api, choice.config.endpoint) == ("openai", f"{server.address}/v1")
    assert (window.tokens, bounded.tokens, less.tokens) == (tokens, tokens, 4_000)
    assert window.is_known


async def test_a_short_context_is_told_with_the_command_that_lengthens_it() -> None:
    async with run_local_server(fake_lmstudio("q", loaded=4_096)) as server:
        choice = await chosen(lmstudio_url=server.address)
    assert "only 4,096 tokens, which is too short: agents need 8,192" in choice.notes[-1]
    assert "lms load q --context-length 32768" in choice.notes[-1]


async def test_of_several_servers_the_loaded_model_with_tools_is_chosen_unless_one_is_named() -> (
    None
):
    async with AsyncExitStack() as stack:
        ollama = await stack.enter_async_context(run_provider(FakeOllama(model="a:latest")))
        studio = await stack.enter_async_context(
            run_local_server(fake_lmstudio("b", loaded=32_768))
        )
        vllm = await stack.enter_async_context(run_local_server(fake_vllm("c", longest=32_768)))
        where = {
            "ollama_host": ollama.endpoint,
            "lmstudio_url": studio.address,
            "vllm_url": vllm.address,
        }
        choice = await chosen(**where)
        assert choice.config.model == "b"
        assert [note.split(" at ")[0] for note in choice.notes[:3]] == [
            "found Ollama",
            "found LM Studio",
            "found vLLM",
        ]
        assert "CHOIR_MODEL" in choice.notes[3]
        ollama.loaded = 8_192
        assert (await chosen(**where)).config.model == "a:latest"
        assert (await chosen(model="a", **where)).config.model == "a:latest"
        assert (await chosen(model="c", **where)).config.provider == "vllm"
        assert (await chosen("lmstudio", **where)).config.model == "b"
        with pytest.raises(StartupError, match="CHOIR_MODEL_SOURCE is vllm"):
            await chosen("vllm", model="b", **where)


async def test_a_model_without_tools_is_not_chosen_and_another_program_is_no_server() -> None:
    ollama = FakeOllama()
    ollama.capabilities = ["completion"]
    other = FakeLocalServer({"/": {}, "/v1/models": {"data": [{"id": "x"}]}})
    async with run_provider(ollama), run_local_server(other):
        choice = await chosen(ollama_host=ollama.endpoint, vllm_url=other.address)
        with pytest.raises(StartupError, match="no model of it can call tools"):
            await chosen("ollama", ollama_host=ollama.endpoint)
    assert choice.rehearsal
    assert choice.notes == (
        f"found Ollama at {ollama.endpoint}, but no model of it can call tools, which agents need "
        f"({ollama.model}): add one that can",
    )


async def test_a_server_without_a_model_or_without_the_named_one_is_said() -> None:
    empty = FakeLocalServer({"/api/version": {"version": "0.9"}, "/api/tags": {"models": []}})
    async with (
        run_local_server(empty),
        run_local_server(fake_lmstudio("q", loaded=32_768)) as studio,
    ):
        choice = await chosen(ollama_host=empty.address)
        named = await chosen(model="r", lmstudio_url=studio.address)
    assert choice.rehearsal and "it has no model: run `ollama pull qwen3:8b`" in choice.notes[0]
    assert "no model of the name in CHOIR_MODEL: it has q" in named.notes[0]


async def test_a_model_whose_context_suffices_is_preferred() -> None:
    async with (
        run_local_server(fake_lmstudio("short", loaded=4_096)) as studio,
        run_local_server(fake_vllm("long", longest=32_768)) as vllm,
    ):
        choice = await chosen(lmstudio_url=studio.address, vllm_url=vllm.address)
    assert choice.config.model == "long"


async def test_a_model_that_lmstudio_has_not_loaded_gets_the_least_that_works() -> None:
    async with run_local_server(fake_lmstudio("q", loaded=None)) as server:
        choice = await chosen(lmstudio_url=server.address)
        window = await ContextWindows().find(choice.config, None)
    assert (window.tokens, window.is_known) == (8_192, False)
