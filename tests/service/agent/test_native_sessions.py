"""Sessions with models of Gemini's API and of OpenAI's Responses API: tools, thoughts, a crash, a restart."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from choir_common.wire.events import ModelOutput
from choir_common.wire.signals import ConfigChangedSignal, ShutdownSignal
from choir_testing.providers.gemini import Gemini
from choir_testing.providers.openai_responses import OpenAiResponses
from choir_testing.providers.provider import (
    KEY,
    SECRET,
    Answer,
    Call,
    FakeProvider,
    RecordedRequest,
    Usage,
)
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

READ = Call("choir_fs_read", {"path": "a.txt"})
LOOK = Answer("I look.", (READ, READ), reasoning="hm", usage=Usage(cached_tokens=700))


@pytest.fixture(params=[Gemini, OpenAiResponses])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[FakeProvider]:
    async with run_provider(request.param()) as provider:
        yield provider


@pytest.fixture
async def control(provider: FakeProvider) -> AsyncIterator[ControlStandIn]:
    async with run_control(provider.endpoint) as control:
        bind(control, provider)
        control.secrets = {SECRET: KEY}
        (control.workspace / "a.txt").write_text("words")
        yield control


def bind(control: ControlStandIn, provider: FakeProvider) -> None:
    control.bound = {"model": provider.settings()}


def thoughts(request: RecordedRequest) -> list[Mapping[str, Any]]:
    """Return what a request has of the model's thoughts: signed parts, or encrypted items."""
    contents: Any = request.body.get("contents", [])
    items: Any = request.body.get("input", [])
    parts: Sequence[Any] = [part for content in contents for part in content["parts"]]
    return [
        *(part for part in parts if "thoughtSignature" in part),
        *(item for item in items if "encrypted_content" in item),
    ]


async def test_thoughts_come_back_from_the_log_after_a_crash_and_a_restart(
    provider: FakeProvider, control: ControlStandIn
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
    assert len(thoughts(before)) == 1 and thoughts(provider.requests[2]) == thoughts(before)
    assert thoughts(provider.requests[-1])[0] == thoughts(before)[0]
    assert len(thoughts(provider.requests[-1])) == 2
    outputs = [p for p in control.payloads() if isinstance(p, ModelOutput)]
    assert outputs[0].cached_tokens == 700 and len(outputs[0].tool_calls) == 2
    assert KEY not in "".join(event.model_dump_json() for event in control.events)


async def test_a_session_goes_on_with_another_model_and_back(
    provider: FakeProvider, control: ControlStandIn
) -> None:
    other_kind = OpenAiResponses if isinstance(provider, Gemini) else Gemini
    provider.script(LOOK, Answer("One."))
    async with run_provider(other_kind()) as other, running_agent(control):
        await control.until(lambda: bool(control.heartbeats))
        other.script(LOOK, Answer("Two."))
        provider.script(LOOK, Answer("Three."))
        for number, model in enumerate((provider, other, provider), 1):
            bind(control, model)
            control.config_version += 1
            await control.tell(ConfigChangedSignal(config_version=control.config_version))
            await control.until(
                lambda: control.heartbeats[-1].config_version == control.config_version
            )
            await control.say("Look.", f"inb_{number}")
            await control.replied(number)
        assert [reply.text for reply in control.replies()] == ["One.", "Two.", "Three."]
        # each got its own thoughts only
        assert provider.refusals == [] and other.refusals == []


async def test_a_session_whose_thoughts_are_no_longer_valid_is_healed(
    control: ControlStandIn, provider: FakeProvider
) -> None:
    provider.script(LOOK, Answer("One."), Answer("Two."))
    async with running_agent(control):
        await control.say("Look.")
        await control.replied()
        # as after a change of the provider's keys
        provider.sent.clear()
        await control.say("And now?", "inb_2")
        replies = await control.replied(2)
    assert [(reply.kind, reply.text) for reply in replies] == [
        ("answer", "One."),
        ("answer", "Two."),
    ]
    assert len(provider.refusals) == 1
