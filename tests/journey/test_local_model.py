"""A model server of this machine: `up` finds it, an agent works in its short context, and commands say so."""

import asyncio
import json

import pytest

from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.provider import Answer, Call
from choir_testing.providers.server import run_provider
from tests.support.stack import EmbeddedStack, console_user, running_stack_in_thread

NOBODY = "http://127.0.0.1:1"
NOTE = "the ferry leaves at nine"
ELSEWHERE = {
    "CHOIR_LMSTUDIO_URL": NOBODY,
    "CHOIR_LLAMACPP_URL": NOBODY,
    "CHOIR_VLLM_URL": NOBODY,
}


async def printed(stack: EmbeddedStack, command: str) -> str:
    """Return the output of a command as one line."""
    return " ".join((await asyncio.to_thread(stack.run, command, check=False)).split())


@pytest.mark.nightly  # test_local_models.py finds it, test_small_context.py fits into a context
async def test_up_finds_ollama_and_an_agent_works_in_its_context_of_8192_tokens() -> None:
    async with run_provider(FakeOllama(model="qwen3:4b")) as ollama:
        ollama.context_length = 8_192
        env = {"OLLAMA_HOST": ollama.endpoint, "CHOIR_MODEL_SOURCE": "ollama", **ELSEWHERE}
        async with running_stack_in_thread(env=env) as stack:
            state = stack.children()
            assert state["model"] == "qwen3:4b at the local Ollama"
            assert state["model_notes"] == [f"found Ollama at {ollama.endpoint}: qwen3:4b"]

            (stack.home / "workspaces" / "main" / "note.txt").write_text(NOTE)
            ollama.script(
                Answer(calls=(Call("choir_fs_read", {"path": "note.txt"}),), reasoning="I look"),
                Answer("At nine."),
            )
            async with console_user(stack.endpoint) as user:
                assert await user.asks("When does the ferry leave?") == "At nine."
            sent = str(ollama.requests[-1].body["messages"])
            assert NOTE in sent and "I look" in sent and not ollama.refusals
            assert (ollama.loaded, ollama.loads) == (8_192, 1)
            assert max(ollama.prompt_tokens) < 3_000

            expected = (
                "Its model qwen3:4b has a context of 8,192 tokens: it gets short instructions"
            )
            # agents report their state once a second
            async with asyncio.timeout(30):
                while expected not in await printed(stack, "status"):
                    await asyncio.sleep(0.2)
            (model,) = json.loads(await asyncio.to_thread(stack.run, "model", "list", "--json"))
            assert (model["model"], model["context_window"]) == ("qwen3:4b", 8_192)
            advice = "`OLLAMA_CONTEXT_LENGTH=32768 ollama serve`"
            assert advice in await printed(stack, "doctor")
