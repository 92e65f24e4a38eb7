"""Thoughts and the cached prefix survive all steps of a tool loop, also when Choir's notes change."""

import itertools
from typing import Any

import pytest

from choir_common.wire.events import PromptNote
from choir_models.registry import ModelRegistry
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.local_chat import NO_SYSTEM
from choir_testing.providers.provider import Answer, Call, RecordedRequest
from choir_testing.providers.server import run_provider
from tests.service.models.provider_matrix import Conversation, Recorder, every_provider

STEPS = 5
LONG = "word " * 1_000
NOTES = {
    0: PromptNote(kind="jobs", text="Running core jobs:\n- fix"),
    2: PromptNote(kind="jobs", text="Running core jobs:\n- fix, has reported"),
    3: PromptNote(kind="jobs", text="No core job is running now."),
}
"""The notes that are new, by the step whose prompt ends with them."""
THOUGHT_KEYS = {
    "anthropic": b'"signature":',
    "deepseek": b'"reasoning_content":',
    "gemini": b'"thoughtSignature":',
    "gemini-openai": b'"thought_signature":',
    "llamacpp": b'"reasoning_content":',
    "lmstudio": b'"reasoning_content":',
    "ollama": b'"thinking":',
    "openai": None,
    "openrouter": b'"reasoning_details":',
    "openai-responses": b'"encrypted_content":',
    "vllm": b'"reasoning":',
}
"""The field that each provider's thoughts come back in; None if it sends none."""


async def run_loop(talk: Conversation) -> None:
    """Let a model use tools in five steps, and then answer."""
    look = Answer(calls=(Call("read_weather", {"place": "home"}),), reasoning="I must look.")
    talk.provider.script(*[look] * STEPS, Answer("Dry."))
    talk.add_user_message(f"Use the tool. {LONG}")
    for step in range(STEPS + 1):
        notes = (NOTES[step],) if step in NOTES else ()
        completion = await talk.think(Recorder(), notes=notes)
    assert completion.text == "Dry."


def history_of(request: RecordedRequest) -> list[Any]:
    """Return the messages of a request, without marks for the cache."""
    body: Any = request.body
    return list(map(unmarked, body.get("messages") or body.get("contents") or body.get("input")))


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: unmarked(part) for name, part in value.items() if name != "cache_control"}
    return list(map(unmarked, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", every_provider())
async def test_each_request_of_a_tool_loop_extends_the_one_before_with_all_thoughts(
    name: str,
) -> None:
    models = ModelRegistry()
    async with run_provider(every_provider()[name]()) as provider:
        await run_loop(Conversation(models, provider))
    await models.close()
    # a template that takes system messages at the beginning only refuses the first request
    refused = len(provider.refusals)
    assert provider.refusals == [NO_SYSTEM] * (name == "vllm")
    requests = provider.requests[refused:]
    for before, after in itertools.pairwise(requests):
        assert history_of(after)[: len(history_of(before))] == history_of(before)
    key = THOUGHT_KEYS[name]
    if key is not None:
        assert [request.raw.count(key) for request in requests] == list(range(STEPS + 1))
    texts = [note.text.splitlines()[-1].encode() in requests[-1].raw for note in NOTES.values()]
    assert all(texts)


@pytest.mark.parametrize("changes", [{"reasoning_effort": "high"}, {"thinking_budget": 2_000}])
@pytest.mark.parametrize("rule", ["binds_thinking", "forgets_earlier_turns"])
async def test_claude_reads_all_thoughts_of_a_tool_loop_and_caches_the_whole_prefix(
    rule: str, changes: dict[str, object]
) -> None:
    models = ModelRegistry()
    async with run_provider(AnthropicProvider()) as provider:
        setattr(provider, rule, True)
        talk = Conversation(models, provider)
        talk.changes = changes
        await run_loop(talk)
    await models.close()
    assert provider.refusals == []
    assert provider.seen_thoughts == list(range(STEPS + 1))
    for before, use in itertools.pairwise(provider.cache_uses):
        assert use.read == before.blocks
