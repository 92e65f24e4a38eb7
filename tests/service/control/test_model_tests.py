"""The test call of a model: what it says, what it costs, and that it cannot be repeated at will."""

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from choir_common.wire.model_check import ModelCheckRequest
from choir_control.agents.model_tests import ModelCheckProgram
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import Answer, Hang, Usage
from choir_testing.providers.server import run_provider
from tests.service.control.test_ledger import costs
from tests.service.control.world import MODEL_KEY, OPERATOR_TOKEN, World, until
from tests.support.preloaded_choirctl import run_choirctl
from tests.support.shell import ChoirctlRunner

PRICES = {"input": 1_000, "output": 10_000}
"""High enough that one call shows in a sum."""


@pytest.fixture
async def provider() -> AsyncIterator[OpenAi]:
    async with run_provider(OpenAi(key=MODEL_KEY)) as fake:
        yield fake


@pytest.fixture
async def tested(stopped: World, provider: OpenAi) -> World:
    """A choird with models that work, that have a wrong key, none, or a wrong name, and that are away."""
    config = json.loads(stopped.settings.config_file.read_text())
    good = provider.settings(secret="key", prices=PRICES).model_dump(mode="json", exclude_none=True)
    config["models"] = {
        "default": good,
        "wrong": {**good, "secret": "tg"},
        "unset": {**good, "secret": "other-key"},
        "unknown": {**good, "model": "no-such-model"},
        "away": {**good, "endpoint": "http://127.0.0.1:1/v1"},
    }
    config["agents"]["main"]["autostart"] = False
    stopped.settings.config_file.write_text(json.dumps(config))
    await stopped.start()
    return stopped


async def call(world: World, name: str) -> dict[str, Any]:
    answer = await world.post(f"/v1/models/{name}/test")
    assert answer.status_code == 200, answer.text
    assert MODEL_KEY not in answer.text
    shown: dict[str, Any] = answer.json()
    return shown


async def test_a_model_that_works_is_called_once_with_a_tool_and_charged_to_no_agent(
    tested: World, provider: OpenAi
) -> None:
    provider.script(Answer("ok", usage=Usage(prompt_tokens=100, completion_tokens=10)))
    shown = await call(tested, "default")
    assert (shown["name"], shown["outcome"], shown["answered"]) == ("default", "ok", True)
    assert shown["model"] == provider.model and shown["duration_ms"] > 0
    assert "responds and supports tools" in shown["detail"]
    (request,) = provider.requests
    assert request.body["tools"] and provider.refusals == []
    report = await costs(tested, by="model")
    assert (report.total.calls, report.total.cost_usd) == (1, Decimal("0.2"))
    assert [line.group for line in (await costs(tested, by="agent")).lines] == [""]


TOLD = (
    ("wrong", "choirctl secret set tg"),
    ("away", "http://127.0.0.1:1/v1 does not answer"),
    ("unset", "its key is not set. Store it: `choirctl secret set other-key`"),
    ("unknown", "There is no model of that name at this address"),
)


async def test_a_model_that_does_not_work_is_told_with_what_mends_it(
    tested: World, subtests: pytest.Subtests
) -> None:
    for name, told in TOLD:
        with subtests.test(name):
            shown = await call(tested, name)
            assert (shown["outcome"], shown["answered"]) == ("fail", False)
            assert told in shown["detail"]
            assert (await costs(tested)).total.calls == 0


async def test_a_model_is_tested_once_at_a_time(tested: World, provider: OpenAi) -> None:
    provider.script(Hang())
    first = asyncio.create_task(tested.post("/v1/models/default/test"))

    async def has_called() -> bool:
        return len(provider.requests) == 1

    await until(has_called)
    second = await tested.post("/v1/models/default/test")
    assert second.status_code == 409 and "A test of default is running" in second.text
    assert (await call(tested, "unset"))["outcome"] == "fail"
    first.cancel()
    assert len(provider.requests) == 1


async def test_what_is_no_model_is_not_called(tested: World, provider: OpenAi) -> None:
    refused = await tested.post("/v1/models/nobody/test")
    assert refused.status_code == 404 and "away, default, unknown, unset, wrong" in refused.text
    assert provider.requests == []


async def test_a_budget_of_all_agents_holds_for_test_calls(tested: World, provider: OpenAi) -> None:
    config = json.loads(tested.settings.config_file.read_text())
    config["budgets"] = {"total_usd_per_day": 100}
    tested.settings.config_file.write_text(json.dumps(config))
    assert (await tested.post("/v1/config/load")).is_success
    assert (await tested.post("/v1/config/apply")).is_success
    assert (await call(tested, "default"))["outcome"] == "ok"
    (request,) = provider.requests
    assert provider.limits_of(request) == [4_000]
    provider.script(Answer("ok", usage=Usage(prompt_tokens=90_000)))
    await call(tested, "default")
    refused = await call(tested, "default")
    assert refused["outcome"] == "fail" and not refused["answered"]
    assert "The model is not called, because a budget is used up" in refused["detail"]
    assert "choirctl config set budgets.total_usd_per_day" in refused["detail"]
    assert len(provider.requests) == 2
    rows = "SELECT count(*) FROM choir_control.budget_reservations"
    assert await tested.database.fetchval(rows) == 0


async def test_choirctl_shows_the_result_and_exits_1_for_a_model_that_does_not_work(
    tested: World,
) -> None:
    shell = ChoirctlRunner(tested.home, {"CHOIR_URL": tested.tcp, "CHOIR_TOKEN": OPERATOR_TOKEN})
    text = await asyncio.to_thread(lambda: shell.succeeds("model", "test", "default"))
    assert "responds and supports tools" in text
    command = ("model", "test", "unset")
    done = await asyncio.to_thread(lambda: run_choirctl(*command, home=shell.home, env=shell.env))
    assert done.returncode == 1 and "choirctl secret set other-key" in done.stdout


async def test_a_program_without_a_result_is_ended(provider: OpenAi) -> None:
    request = ModelCheckRequest(name="x", model=provider.settings(), key=MODEL_KEY)
    assert await ModelCheckProgram(("/bin/sleep", "60"), 0.2).run(request) is None
    assert await ModelCheckProgram(("/bin/cat",), 20).run(request) is None
