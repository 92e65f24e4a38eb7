"""A session with a model of Anthropic's own API: tools, thoughts, a crash and a restart."""

import itertools
from collections.abc import AsyncIterator

import pytest

from choir_common.wire.events import ModelOutput
from choir_common.wire.model import JsonObject
from choir_common.wire.signals import ShutdownSignal
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.anthropic_rules import blocks_of, objects
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import KEY, SECRET, Answer, Call, RecordedRequest, Usage
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

READ = Call("choir_fs_read", {"path": "a.txt"})
LOOK = Answer(
    text="I look.", calls=(READ, READ), reasoning="I need the file.", usage=Usage(cached_tokens=700)
)


@pytest.fixture
async def provider() -> AsyncIterator[AnthropicProvider]:
    async with run_provider(AnthropicProvider()) as server:
        server.binds_thinking = True
        yield server


@pytest.fixture
async def control(provider: AnthropicProvider) -> AsyncIterator[ControlStandIn]:
    async with run_control(provider.endpoint) as stand_in:
        stand_in.bound = {"model": provider.settings(reasoning_effort="high")}
        stand_in.secrets = {SECRET: KEY}
        (stand_in.workspace / "a.txt").write_text("words")
        yield stand_in


def thoughts(request: RecordedRequest) -> list[JsonObject]:
    """Return the thoughts in a request."""
    messages = objects(request.body["messages"])
    return [b for m in messages for b in blocks_of(m) if b["type"] == "thinking"]


async def test_thoughts_come_back_from_the_log_after_a_crash_and_a_restart(
    provider: AnthropicProvider, control: ControlStandIn
) -> None:
    provider.script(LOOK, Answer("It says words.", reasoning="That is all."))
    async with running_agent(control):
        await control.say("What does a.txt say?")
        await control.replied()
    before = provider.requests[-1]
    # the end of the turn is lost with the process
    control.crash_and_cut(control.types().index("tool_result_committed") + 1)
    provider.script(Answer("After the crash.", reasoning="Once more."))
    async with running_agent(control) as agent:
        await control.replied()
        await control.tell(ShutdownSignal(reason="stop"))
        await agent
    control.next_epoch()
    provider.script(Answer("And again."))
    async with running_agent(control):
        await control.say("Thanks.", "inb_2")
        replies = await control.replied(2)
    assert [reply.text for reply in replies] == ["After the crash.", "And again."]
    assert provider.refusals == []
    # the same signature each time
    assert thoughts(provider.requests[2]) == thoughts(before)
    assert [t["thinking"] for t in thoughts(provider.requests[-1])] == [
        "I need the file.",
        "Once more.",
    ]
    output = next(p for p in control.payloads() if isinstance(p, ModelOutput))
    assert output.cached_tokens == 700
    assert KEY not in "".join(event.model_dump_json() for event in control.events)


async def test_each_step_of_a_turn_is_read_from_the_cache(
    provider: AnthropicProvider, control: ControlStandIn
) -> None:
    provider.script(LOOK, LOOK, Answer("Done."))
    async with running_agent(control):
        await control.say("What does a.txt say?")
        await control.replied()
    first, second, third = provider.cache_uses
    assert (second.read, third.read) == (first.blocks, second.blocks)


async def test_a_session_with_thoughts_that_are_no_longer_valid_goes_on(
    provider: AnthropicProvider, control: ControlStandIn
) -> None:
    provider.script(LOOK, Answer("It says words."))
    async with running_agent(control):
        await control.say("What does a.txt say?")
        await control.replied()
        provider.forget_thoughts()
        for number, text in ((2, "Again?"), (3, "And again?")):
            await control.say(text, f"inb_{number}")
            replies = await control.replied(number)
            assert replies[-1].kind == "answer"
    # refused once; from then on it is known
    assert len(provider.refusals) == 1
    assert thoughts(provider.requests[-1]) == []


async def test_thoughts_and_the_cached_prefix_survive_a_turn_in_which_a_core_job_begins_and_ends(
    provider: AnthropicProvider, control: ControlStandIn
) -> None:
    spawn = Call("choir_core_spawn", {"job_name": "survey", "task_spec": "Survey the garden."})
    provider.script(
        Answer(calls=(spawn,), reasoning="A job."), *[LOOK] * 4, Answer("Done.", reasoning="Fine.")
    )
    async with run_provider(OpenAi(key=KEY)) as core:
        control.bound |= {"core_model_name": "deep", "core_model": core.settings()}
        async with running_agent(control):
            await control.say("Survey the garden, and read a.txt.")
            await control.until(lambda: len(control.replies()) == 2)
    assert provider.refusals == []
    assert provider.seen_thoughts[:7] == [0, 1, 2, 3, 4, 5, 6]
    for before, use in itertools.pairwise(provider.cache_uses[:6]):
        assert use.read == before.blocks
    notes = [n.text for p in control.payloads() if isinstance(p, ModelOutput) for n in p.notes]
    assert "Running core jobs:\n- survey" in notes[0]
    assert notes[-1] == "No core job is running now."
