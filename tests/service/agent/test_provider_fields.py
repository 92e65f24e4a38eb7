"""Fields that a provider sends with its messages go back to it, and no session is lost for their lack."""

from collections.abc import Callable

import pytest

from choir_common.wire.config import ModelConfig
from choir_common.wire.events import ModelOutput
from choir_common.wire.signals import ConfigChangedSignal
from choir_models.model import model_id
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.strict_providers import (
    Rules,
    StrictProvider,
    assistant_calls,
    deepseek,
    gemini,
    groq,
    lenient,
    openrouter,
    strict_provider,
)

STRICT = [gemini, deepseek, openrouter]


async def said(control: ControlStandIn, number: int, text: str) -> tuple[str, str]:
    """Say something and return the kind and text of its reply."""
    await control.say(text, f"inb_{number}")
    replies = await control.replied(number)
    closing = next(reply for reply in replies if reply.answers == f"inb_{number}")
    return closing.kind, closing.text


async def switch_to(control: ControlStandIn, provider: StrictProvider) -> None:
    control.bound = {"model": ModelConfig(model="other", endpoint=provider.endpoint)}
    control.config_version += 1
    await control.tell(ConfigChangedSignal(config_version=control.config_version))
    await control.until(lambda: control.heartbeats[-1].config_version == control.config_version)


def outputs(control: ControlStandIn) -> list[ModelOutput]:
    return [p for p in control.payloads() if isinstance(p, ModelOutput)]


@pytest.mark.parametrize("rules", STRICT)
async def test_tools_work_with_a_provider_that_wants_its_fields_back(
    rules: Callable[[], Rules],
) -> None:
    async with strict_provider(rules()) as provider, run_control(provider.endpoint) as control:
        (control.workspace / "a.txt").write_text("words")
        async with running_agent(control):
            assert await said(control, 1, "use tools") == ("answer", "answer 3")
            assert await said(control, 2, "use them again") == ("answer", "answer 6")
    assert provider.refusals == []
    kept = outputs(control)[0].provider_fields
    assert kept is not None and kept.origin.endswith(provider.endpoint)


@pytest.mark.parametrize("rules", STRICT)
async def test_after_a_crash_the_fields_still_go_back(rules: Callable[[], Rules]) -> None:
    async with strict_provider(rules()) as provider, run_control(provider.endpoint) as control:
        (control.workspace / "a.txt").write_text("words")
        async with running_agent(control):
            await said(control, 1, "use tools")
        # the last words of the turn are lost with the process
        control.crash_and_cut(control.types().index("model_output") + 1)
        async with running_agent(control):
            await control.replied()
    assert provider.refusals == []
    assert control.replies()[-1].kind == "answer"


@pytest.mark.parametrize("rules", STRICT)
@pytest.mark.parametrize("first", ["lacking", "no longer valid"])
async def test_a_session_with_fields_that_the_provider_refuses_goes_on(
    rules: Callable[[], Rules], first: str
) -> None:
    async with strict_provider(rules()) as provider, run_control(provider.endpoint) as control:
        (control.workspace / "a.txt").write_text("words")
        if first == "lacking":
            provider.rules = lenient()
        async with running_agent(control):
            await said(control, 1, "use tools")
        # the turn is cut in the middle: an older version of Choir dropped the fields
        provider.rules = rules()
        provider.sent.clear()
        control.crash_and_cut(control.types().index("tool_result_committed") + 1)
        async with running_agent(control):
            await control.replied()
            assert control.replies()[-1].kind == "answer"
            assert (await said(control, 2, "use tools again"))[0] == "answer"
            assert (await said(control, 3, "hello"))[0] == "answer"
    # refused once; from then on it is known
    assert len(provider.refusals) == 1
    told = [m for m in provider.requests[-1] if "Tools you used here" in str(m["content"])]
    assert "words" in told[0]["content"]


@pytest.mark.parametrize("rules", STRICT)
async def test_a_change_of_model_drops_the_fields_and_the_session_goes_on(
    rules: Callable[[], Rules],
) -> None:
    async with strict_provider(lenient()) as free, strict_provider(rules()) as strict:
        async with run_control(strict.endpoint) as control, running_agent(control):
            await said(control, 1, "use tools")
            await switch_to(control, free)
            assert (await said(control, 2, "use tools"))[0] == "answer"
            fields = {"extra_content", "reasoning_content", "reasoning_details", "reasoning"}
            for message in free.requests[-1]:
                assert not fields & message.keys()
                assert all(not fields & call.keys() for call in message.get("tool_calls", ()))
            await switch_to(control, strict)
            assert (await said(control, 3, "use tools"))[0] == "answer"


async def test_an_endpoint_that_refuses_its_own_fields_is_asked_without_them() -> None:
    async with strict_provider(groq()) as provider, run_control(provider.endpoint) as control:
        async with running_agent(control):
            assert (await said(control, 1, "use tools"))[0] == "answer"
            assert (await said(control, 2, "use tools"))[0] == "answer"
    assert len(provider.refusals) == 1
    # the calls themselves still go back as calls
    assert len(assistant_calls(provider.requests[-1])) == 4


async def test_a_request_that_is_refused_however_it_is_written_ends_in_the_providers_words() -> (
    None
):
    always = Rules(lambda answer, number: None, lambda messages, sent: "tools[3] has a bad schema")
    async with strict_provider(always) as provider, run_control(provider.endpoint) as control:
        async with running_agent(control):
            kind, text = await said(control, 1, "use tools")
    assert kind == "error" and "tools[3] has a bad schema" in text
    assert len(provider.refusals) == 1


def test_an_origin_names_model_and_endpoint() -> None:
    model = ModelConfig(model="m", endpoint="http://x/v1")
    assert model_id(model) == "m at http://x/v1"
    assert model_id(model.model_copy(update={"endpoint": "http://y/v1"})) != model_id(model)
