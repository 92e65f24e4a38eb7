"""Outages of providers: retries, fallback models, and jobs that wait; parameters that a model refuses."""

import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from choir_agent.models import retry_policy
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import CoreReported, CoreStopped, ModelOutput
from choir_models import fallback
from choir_testing.providers.openai import DeepSeek, GeminiChat, OpenAi, OpenRouter
from choir_testing.providers.provider import (
    SECRET,
    Answer,
    Call,
    Disconnect,
    ErrorFault,
    FakeProvider,
    Fault,
)
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

SPAWN = Call("choir_core_spawn", {"job_name": "survey", "task_spec": "Survey the garden."})
DOWN = ErrorFault("overloaded")


@contextlib.asynccontextmanager
async def session(
    first: FakeProvider, *fallbacks: FakeProvider, core: FakeProvider | None = None
) -> AsyncIterator[ControlStandIn]:
    """Serve the providers, and a control whose agent uses the first one with these fallbacks."""
    async with contextlib.AsyncExitStack() as stack:
        for provider in (first, *fallbacks, *filter(None, [core])):
            await stack.enter_async_context(run_provider(provider))
        control = await stack.enter_async_context(run_control(first.endpoint))
        control.rate_limit_retry_ms = 2
        control.secrets = {SECRET: first.key}
        spares = {f"spare{n}": provider.settings() for n, provider in enumerate(fallbacks)}
        bind(control, first.settings(fallback=tuple(spares)), fallback_models=spares)
        if core is not None:
            control.bound |= {"core_model_name": "deep", "core_model": core.settings()}
        yield control


def bind(control: ControlStandIn, model: ModelConfig, **more: object) -> None:
    """Let an agent that starts now use this model."""
    control.bound = {"model": model, **more}


async def say(control: ControlStandIn, number: int, text: str = "hello") -> str:
    """Say something and return the text of its reply."""
    await control.say(text, f"inb_{number}")
    replies = await control.replied(number)
    return next(reply.text for reply in replies if reply.answers == f"inb_{number}")


def notices(control: ControlStandIn) -> list[str]:
    """Return the notices that reached the user."""
    return [reply.text for reply in control.replies() if reply.kind == "notice"]


def phases(control: ControlStandIn) -> list[object]:
    """Return the phases that jobs reported."""
    return [p.body.get("phase") for p in control.payloads() if isinstance(p, CoreReported)]


def outcomes(control: ControlStandIn) -> list[str]:
    """Return the outcomes of the jobs that ended."""
    return [p.outcome for p in control.payloads() if isinstance(p, CoreStopped)]


async def test_a_core_job_outlives_an_outage_of_ten_minutes_and_says_that_it_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a second of the real schedule is 2 ms here, for the first pause and for the longest
    monkeypatch.setattr(retry_policy, "MAX_PAUSE_S", retry_policy.MAX_PAUSE_S * 0.002)
    edge, core = OpenAi(), OpenAi()
    edge.script(Answer(calls=(SPAWN,)), Answer("Started."))
    core.outage, core.default = DOWN, Answer("The garden has twelve beds.")
    async with session(edge, core=core) as control, running_agent(control):
        await say(control, 1)
        for fault in (Disconnect(), ErrorFault("server"), ErrorFault("rate", retry_after_s=0.01)):
            asked = len(core.requests)
            await control.until(lambda before=asked: len(core.requests) > before)
            core.outage = fault
        began = time.monotonic()
        await control.until(lambda: time.monotonic() - began > 600 * 0.002)
        assert outcomes(control) == []
        core.outage = None
        await control.until(lambda: outcomes(control) == ["completed"])
    assert phases(control) == ["waiting for the model", "the model answers again"]
    waiting = next(p for p in control.payloads() if isinstance(p, CoreReported))
    assert core.endpoint in str(waiting.body["focus"])


async def test_a_job_that_waits_names_each_model_with_its_own_failure() -> None:
    edge, spare, core = OpenAi(), OpenAi(model="spare-model"), OpenAi()
    edge.script(Answer(calls=(SPAWN,)), Answer("Started."))
    core.outage, spare.outage = ErrorFault("key"), DOWN
    async with session(edge, spare, core=core) as control:
        control.bound["core_model"] = core.settings(fallback=("spare0",))
        async with running_agent(control):
            await say(control, 1)
            await control.until(lambda: "waiting for the model" in phases(control))
    waiting = next(p for p in control.payloads() if isinstance(p, CoreReported))
    focus = str(waiting.body["focus"])
    assert "refused the API key" in focus and "its fallback spare0 failed, too" in focus


async def test_a_job_that_waits_for_its_provider_survives_a_crash_of_the_agent() -> None:
    edge, core = OpenAi(), OpenAi()
    edge.script(Answer(calls=(SPAWN,)), Answer("Started."))
    core.outage, core.default = DOWN, Answer("The garden has twelve beds.")
    async with session(edge, core=core) as control:
        async with running_agent(control):
            await say(control, 1)
            await control.until(lambda: "waiting for the model" in phases(control))
        control.crash_and_cut(len(control.events))
        asked = len(core.requests)
        async with running_agent(control):
            await control.until(lambda: len(core.requests) > asked + 2)
            core.outage = None
            await control.until(lambda: outcomes(control) == ["completed"])


async def test_a_job_whose_time_ends_in_an_outage_says_what_it_waited_for() -> None:
    edge, core = OpenAi(), OpenAi()
    limit = {"job_name": "survey", "task_spec": "x", "tool_constraints": {"time_budget_ms": 1_000}}
    edge.script(Answer(calls=(Call("choir_core_spawn", {**limit}),)), Answer("Started."))
    core.outage = DOWN
    async with session(edge, core=core) as control, running_agent(control):
        await say(control, 1)
        await control.until(lambda: bool(outcomes(control)))
    stopped = next(p for p in control.payloads() if isinstance(p, CoreStopped))
    assert stopped.outcome == "budget_exceeded"
    assert "answered 503" in stopped.reason and core.endpoint in stopped.reason


@pytest.mark.parametrize("fault", [DOWN, Disconnect(), ErrorFault("key"), ErrorFault("credit")])
async def test_a_fallback_answers_while_the_first_model_does_not(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "COOL_DOWN_S", 3600.0)
    first, spare = DeepSeek(), OpenAi(model="spare-model")
    first.outage = fault
    async with session(first, spare) as control, running_agent(control):
        assert await say(control, 1) == "All is well."
        asked = len(first.requests)
        assert await say(control, 2) == "All is well."
        # it cools down, and nobody waits for it again
        assert len(first.requests) == asked <= 2
        assert len(notices(control)) == 1
        assert "fake-model" in notices(control)[0] and "spare-model" in notices(control)[0]
    models = [p.model for p in control.payloads() if isinstance(p, ModelOutput)]
    assert models == ["spare-model", "spare-model"]


async def test_a_model_whose_key_was_replaced_is_used_again_at_once() -> None:
    first, spare = OpenAi(), OpenAi(model="spare-model", key="sk-of-the-spare-only")
    async with session(first, spare) as control:
        control.secrets = {SECRET: spare.key}
        async with running_agent(control):
            await say(control, 1)
            control.secrets = {SECRET: first.key}
            control.config_version += 1
            # the agent fetches it with one of the next heartbeats
            for number in range(2, 60):
                spare.key = first.key
                await say(control, number)
                if first.answers:
                    break
    models = [p.model for p in control.payloads() if isinstance(p, ModelOutput)]
    assert (models[0], models[-1]) == ("spare-model", "fake-model")


async def test_the_first_model_is_used_again_after_its_cool_down_and_the_user_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fallback, "COOL_DOWN_S", 0.0)
    first, spare = GeminiChat(), OpenRouter(model="spare-model")
    read = Answer(calls=(Call("choir_fs_read", {"path": "a.txt"}),), reasoning="I read.")
    async with session(first, spare) as control, running_agent(control):
        first.script(read, DOWN, DOWN)
        spare.script(read, Answer("Read twice."))
        # the fallback takes over in the middle of a turn, without the fields of the first model
        assert await say(control, 1) == "All is well."
        first.outage = DOWN
        spare.script(Answer("From the spare."))
        await say(control, 2)
        first.outage = None
        assert await say(control, 3) == "All is well."
    # a history without its own fields may be refused, and is written in another form
    assert b"thought_signature" not in b"".join(request.raw for request in spare.requests)
    assert b"reasoning_details" not in b"".join(request.raw for request in first.requests)
    assert [text for text in notices(control) if "answers again" in text] != []


async def test_after_a_restart_the_user_is_not_told_again_but_still_that_the_model_is_back() -> (
    None
):
    first, spare = OpenAi(), OpenAi(model="spare-model")
    first.outage = DOWN
    async with session(first, spare) as control:
        async with running_agent(control):
            await say(control, 1)
        control.crash_and_cut(len(control.events))
        async with running_agent(control):
            await say(control, 2)
            assert len(notices(control)) == 1
        first.outage = None
        control.crash_and_cut(len(control.events))
        async with running_agent(control):
            await say(control, 3)
            assert len(notices(control)) == 2
    assert "answers again" in notices(control)[1]


async def test_a_failure_of_all_models_names_each_of_them() -> None:
    first, spare = OpenAi(), OpenAi(model="spare-model")
    first.outage, spare.outage = ErrorFault("key"), ErrorFault("credit")
    async with session(first, spare) as control, running_agent(control):
        text = await say(control, 1)
    assert first.endpoint in text and "refused the API key" in text
    assert "spare0" in text and "no credit" in text
    assert f"choirctl secret set {SECRET}" in text


async def test_a_core_job_has_the_fallbacks_of_its_own_model() -> None:
    edge, core, spare = OpenAi(), OpenAi(), OpenAi(model="spare-model")
    edge.script(Answer(calls=(SPAWN,)), Answer("Started."))
    core.outage = Disconnect()
    async with session(edge, spare, core=core) as control:
        control.bound["core_model"] = core.settings(fallback=("spare0",))
        async with running_agent(control):
            await say(control, 1)
            await control.until(lambda: outcomes(control) == ["completed"])
    assert len(spare.requests) == 1


@pytest.mark.parametrize(
    ("parameter", "settings", "refusal"),
    [
        (
            "temperature",
            {"temperature": 0.3},
            "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default "
            "(1) value is supported.",
        ),
        (
            "max_completion_tokens",
            {"max_completion_tokens": 500},
            "Extra inputs are not permitted: body.max_completion_tokens",
        ),
        (
            "reasoning_effort",
            {"reasoning_effort": "high"},
            "Unrecognized request argument supplied: reasoning_effort",
        ),
        (
            "parallel_tool_calls",
            {"request": {"extra_body": {"parallel_tool_calls": False}}},
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
        ),
        (
            "tool_choice",
            {"request": {"extra_body": {"tool_choice": "auto"}}},
            "deepseek-reasoner does not support this tool_choice",
        ),
    ],
)
async def test_a_parameter_that_the_model_refuses_is_dropped_and_remembered(
    parameter: str, settings: dict[str, object], refusal: str
) -> None:
    provider = OpenAi(refused={parameter: refusal})
    async with session(provider) as control:
        bind(control, provider.settings(**settings))
        async with running_agent(control):
            assert await say(control, 1) == "All is well."
            assert await say(control, 2) == "All is well."
    assert provider.refusals == [refusal]
    assert [parameter in request.body for request in provider.requests] == [True, False, False]
    limits = [request.body.get("max_tokens") for request in provider.requests]
    assert limits == [None, *[settings.get("max_completion_tokens")] * 2]


async def test_a_parameter_that_choir_does_not_know_is_not_dropped_in_silence() -> None:
    provider = OpenAi()
    async with session(provider) as control:
        bind(control, provider.settings(request={"extra_body": {"thikning": True}}))
        async with running_agent(control):
            assert "thikning" in await say(control, 1)
