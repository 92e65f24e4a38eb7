"""Fields that a provider sends with its messages go back to it, and no session is lost for their lack."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from choir_common.wire.config import ModelConfig
from choir_common.wire.events import ModelOutput
from choir_common.wire.signals import ConfigChangedSignal
from choir_models.model import model_id
from choir_testing.providers.chat_completions import ChatCompletionsProvider, assistant_calls
from choir_testing.providers.openai import DeepSeek, GeminiChat, OpenAi, OpenRouter
from choir_testing.providers.provider import SECRET, Answer, Call, RecordedRequest
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

STRICT = [GeminiChat, DeepSeek, OpenRouter]
READ = Call("choir_fs_read", {"path": "a.txt"})
CITATION = {"type": "url_citation", "url_citation": {"url": "https://example.org", "title": "x"}}


def play(provider: ChatCompletionsProvider, text: str) -> None:
    """Script two rounds of two file reads, and an answer."""
    reads = [Answer(calls=(READ, READ), reasoning=f"thinking {n}") for n in range(2)]
    provider.script(*reads, Answer(text, reasoning="done"))


@contextlib.asynccontextmanager
async def session(provider: ChatCompletionsProvider) -> AsyncIterator[ControlStandIn]:
    """Serve the provider, and a control whose agents use it."""
    async with run_provider(provider), run_control(provider.endpoint) as control:
        (control.workspace / "a.txt").write_text("words")
        control.secrets = {SECRET: provider.key}
        control.bound = {"model": provider.settings()}
        yield control


async def said(control: ControlStandIn, number: int, text: str) -> tuple[str, str]:
    """Say something and return the kind and text of its reply."""
    await control.say(text, f"inb_{number}")
    replies = await control.replied(number)
    closing = next(reply for reply in replies if reply.answers == f"inb_{number}")
    return closing.kind, closing.text


async def switch_to(control: ControlStandIn, provider: ChatCompletionsProvider) -> None:
    """Let the running agent use another provider."""
    control.bound = {"model": provider.settings()}
    control.config_version += 1
    await control.tell(ConfigChangedSignal(config_version=control.config_version))
    await control.until(lambda: control.heartbeats[-1].config_version == control.config_version)


def outputs(control: ControlStandIn) -> list[ModelOutput]:
    """Return the model outputs of the durable log."""
    return [p for p in control.payloads() if isinstance(p, ModelOutput)]


def messages_of(request: RecordedRequest) -> Sequence[dict[str, Any]]:
    """Return the messages of a request."""
    messages: Any = request.body["messages"]
    found: Sequence[dict[str, Any]] = messages
    return found


@pytest.mark.parametrize("kind", STRICT)
async def test_tools_work_with_a_provider_that_wants_its_fields_back(
    kind: type[ChatCompletionsProvider],
) -> None:
    provider = kind()
    async with session(provider) as control, running_agent(control):
        for number in (1, 2):
            play(provider, f"answer {number}")
            assert await said(control, number, "use tools") == ("answer", f"answer {number}")
    assert provider.refusals == []
    kept = outputs(control)[0].provider_fields
    assert kept is not None and kept.origin.endswith(provider.endpoint)


@pytest.mark.parametrize("kind", STRICT)
async def test_after_a_crash_the_fields_still_go_back(kind: type[ChatCompletionsProvider]) -> None:
    provider = kind()
    async with session(provider) as control:
        play(provider, "answer")
        async with running_agent(control):
            await said(control, 1, "use tools")
        # the last words of the turn are lost with the process
        control.crash_and_cut(control.types().index("model_output") + 1)
        async with running_agent(control):
            await control.replied()
    assert provider.refusals == []
    assert control.replies()[-1].kind == "answer"


@pytest.mark.parametrize("kind", STRICT)
@pytest.mark.parametrize("first", ["lacking", "no longer valid"])
async def test_a_session_with_fields_that_the_provider_refuses_goes_on(
    kind: type[ChatCompletionsProvider], first: str
) -> None:
    provider = kind()
    async with session(provider) as control:
        play(provider, "answer")
        provider.is_plain = first == "lacking"
        async with running_agent(control):
            await said(control, 1, "use tools")
        # the turn is cut in the middle: an older version of Choir dropped the fields
        provider.is_plain = False
        provider.sent.clear()
        control.crash_and_cut(control.types().index("tool_result_committed") + 1)
        async with running_agent(control):
            await control.replied()
            assert control.replies()[-1].kind == "answer"
            play(provider, "another answer")
            assert (await said(control, 2, "use tools again"))[0] == "answer"
            assert (await said(control, 3, "hello"))[0] == "answer"
    # refused once; from then on it is known
    assert len(provider.refusals) == 1
    told = [
        m for m in messages_of(provider.requests[-1]) if "Tools you used here" in str(m["content"])
    ]
    assert "words" in told[0]["content"]


@pytest.mark.parametrize("kind", STRICT)
async def test_a_change_of_model_drops_the_fields_and_the_session_goes_on(
    kind: type[ChatCompletionsProvider],
) -> None:
    strict, free = kind(), OpenAi()
    async with run_provider(free), session(strict) as control, running_agent(control):
        play(strict, "first")
        await said(control, 1, "use tools")
        await switch_to(control, free)
        play(free, "second")
        # OpenAI refuses each field that it does not know
        assert await said(control, 2, "use tools") == ("answer", "second")
        assert free.refusals == []
        await switch_to(control, strict)
        play(strict, "third")
        assert await said(control, 3, "use tools") == ("answer", "third")


@pytest.mark.parametrize("kind", [OpenAi, OpenRouter])
async def test_citations_go_back_to_the_model_that_made_them(
    kind: type[ChatCompletionsProvider],
) -> None:
    provider = kind()
    provider.script(Answer("See the page.", annotations=(CITATION,)))
    async with session(provider) as control, running_agent(control):
        await said(control, 1, "search")
        await said(control, 2, "and then?")
    assert provider.refusals == []
    answered = [m for m in messages_of(provider.requests[-1]) if m["role"] == "assistant"]
    assert answered[0]["annotations"] == [CITATION]


class Future(OpenAi):
    """A provider with fields that nobody has heard of, which it wants back."""

    name = "future"
    own_message_fields = frozenset({"annotations", "x_plan"})
    own_call_fields = frozenset({"x_ticket"})

    def decorate(self, message: dict[str, Any], answer: Answer, number: int) -> None:
        """Add a field to the message, and one to each call."""
        message["x_plan"] = {"steps": [number, None, "ü"], "deep": {"empty": []}}
        for call in message.get("tool_calls", ()):
            call["x_ticket"] = f"ticket {number}"

    def broken_fields(self, messages: Sequence[dict[str, Any]]) -> str | None:
        """Refuse calls without the fields that they were sent with."""
        known = [(m["x_plan"], m["tool_calls"][0]["x_ticket"]) for m in assistant_calls(self.sent)]
        for message in assistant_calls(messages):
            if (message.get("x_plan"), message["tool_calls"][0].get("x_ticket")) not in known:
                return "x_plan is required"
        return None


async def test_fields_that_nobody_has_heard_of_go_back_unchanged() -> None:
    provider = Future()
    async with session(provider) as control, running_agent(control):
        play(provider, "answer")
        assert await said(control, 1, "use tools") == ("answer", "answer")
    assert provider.refusals == []


class Groq(OpenAi):
    """An endpoint that sends reasoning, and refuses to read it."""

    name = "groq"

    def decorate(self, message: dict[str, Any], answer: Answer, number: int) -> None:
        """Add the reasoning."""
        message["reasoning"] = f"thinking {number}"


async def test_an_endpoint_that_refuses_its_own_fields_is_asked_without_them() -> None:
    provider = Groq()
    async with session(provider) as control, running_agent(control):
        for number in (1, 2):
            play(provider, "answer")
            assert (await said(control, number, "use tools"))[0] == "answer"
    assert len(provider.refusals) == 1
    # the calls themselves still go back as calls
    assert len(assistant_calls(messages_of(provider.requests[-1]))) == 4


async def test_a_request_that_is_refused_however_it_is_written_ends_in_the_providers_words() -> (
    None
):
    provider = OpenAi(refused={"messages": "tools[3] has a bad schema"})
    async with session(provider) as control, running_agent(control):
        kind, text = await said(control, 1, "use tools")
    assert kind == "error" and "tools[3] has a bad schema" in text
    assert len(provider.refusals) == 1


def test_an_origin_names_model_endpoint_and_api() -> None:
    model = ModelConfig(model="m", endpoint="http://x/v1")
    assert model_id(model) == "m at http://x/v1"
    for change in ({"endpoint": "http://y/v1"}, {"api": "openai-responses"}):
        assert model_id(model.model_copy(update=change)) != model_id(model)
