"""Real agents are killed in the middle of turns, and the ledger still equals the provider's own count."""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from choir_common.wire.money import CostReport
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import Answer, Call, Usage
from choir_testing.providers.server import run_provider
from tests.service.control.test_ledger import apply, change_config, costs
from tests.service.control.world import MODEL_KEY, World, until
from tests.support.nightly import nightly_from

pytestmark = pytest.mark.timeout(600)
MESSAGES = int(os.environ.get("CHOIR_TEST_MONEY_MESSAGES", "8"))
AGENTS = {"main": "console", "other": "second"}
# dollars per million tokens, so integers of micro-dollars per million
INPUT, CACHED, OUTPUT = 3, 1, 15


def bill(usage: Usage) -> int:
    """Return what the provider bills for a call, in millionths of a micro-dollar."""
    fresh = usage.prompt_tokens - usage.cached_tokens
    return fresh * INPUT + usage.cached_tokens * CACHED + usage.completion_tokens * OUTPUT


def random_usage(generator: random.Random) -> Usage:
    prompt, completion = generator.randint(500, 9_000), generator.randint(20, 900)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=generator.randint(0, prompt),
        reasoning_tokens=generator.randint(0, completion),
    )


@pytest.fixture
async def provider() -> AsyncIterator[OpenAi]:
    async with run_provider(OpenAi(key=MODEL_KEY)) as provider:
        yield provider


@pytest.fixture
async def home(stopped: World, provider: OpenAi) -> AsyncIterator[World]:
    """A choird with two real agents, and with limits in money that are never reached."""
    model = {
        "model": provider.model,
        "endpoint": provider.endpoint,
        "secret": "key",
        "temperature": None,
        "prices": {"input": INPUT, "cached_input": CACHED, "output": OUTPUT},
    }
    change_config(
        stopped,
        models__default=model,
        agents__other__defaults__workspace="spare",
        agents__other__autostart=True,
        budgets={"usd_per_day": 1_000, "total_usd_per_month": 10_000},
        summary_timeout_ms=0,
        crash_detection_threshold_ms=30_000,
    )
    await stopped.start(ProcessRuntime(stopped.home, os.environ))
    yield stopped
    await stopped.stop()


async def kill(world: World, agent_id: str) -> None:
    view = (await world.get(f"/v1/agents/{agent_id}")).json()
    if view["state"] == "running" and view["pid"]:
        os.kill(view["pid"], signal.SIGKILL)


async def test_calls_and_kills_are_counted_as_the_provider_counts_them(
    home: World, provider: OpenAi
) -> None:
    generator = random.Random(5)
    for _ in range(4 * MESSAGES):
        call = (Call("choir_fs_read", {"path": "notes.txt"}),)
        provider.script(
            Answer("", call, usage=random_usage(generator), pause_s=generator.choice((0, 0.05))),
            Answer("done", usage=random_usage(generator)),
        )

    async def talk(agent_id: str, dm: str) -> None:
        for number in range(MESSAGES):
            accepted = await home.say("go on", f"{agent_id}-{number}", dm)
            if number % 8 == 7:
                await asyncio.sleep(generator.uniform(0, 0.3))
                await kill(home, agent_id)

            async def answered(inbox_id: str = accepted.inbox_id) -> bool:
                return any(message.answers == inbox_id for message in home.gateway.delivered)

            await until(answered)

    await asyncio.gather(*(talk(agent_id, dm) for agent_id, dm in AGENTS.items()))
    # an agent killed right after its last answer may have a call in flight that nobody waits for
    report = await settled_costs(home)
    rows = await home.database.fetch("SELECT * FROM choir_control.ledger WHERE source = 'config'")
    charged = Counter(_key(dict(row)) for row in rows)
    billed = Counter(_usage_key(answer.usage) for answer in provider.answers)
    assert charged - billed == Counter(), "nothing is charged that was not billed, or twice"
    lost = billed - charged
    assert {line.group for line in report.lines} == set(AGENTS)
    # a kill loses at most the calls of that moment, and the ledger says how many
    assert lost.total() <= report.total.estimated_calls <= 2 * (MESSAGES // 8)
    assert charged.total() >= 4 * MESSAGES - report.total.estimated_calls
    exact = sum(bill(answer.usage) for answer in provider.answers)
    missing = sum(bill(_usage_of(key)) * count for key, count in lost.items())
    assert sum(row["cost_usd"] for row in rows) == Decimal(exact - missing) / 1_000_000


async def settled_costs(world: World) -> CostReport:
    """Return the costs by agent when no reservation is left; costs count those of lost calls."""
    reports: list[CostReport] = []

    async def settled() -> bool:
        reports.append(await costs(world, by="agent"))
        query = "SELECT count(*) FROM choir_control.budget_reservations"
        return bool(await world.database.fetchval(query) == 0)

    await until(settled)
    return reports[-1]


Key = tuple[int, int, int, int]


def _key(row: dict[str, Any]) -> Key:
    return (
        row["prompt_tokens"],
        row["completion_tokens"],
        row["cached_tokens"],
        row["reasoning_tokens"],
    )


def _usage_key(usage: Usage) -> Key:
    return (
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cached_tokens,
        usage.reasoning_tokens,
    )


def _usage_of(key: Key) -> Usage:
    return Usage(
        prompt_tokens=key[0],
        completion_tokens=key[1],
        cached_tokens=key[2],
        reasoning_tokens=key[3],
    )


async def test_at_a_limit_the_agent_asks_and_continues_when_it_is_allowed(
    home: World, provider: OpenAi
) -> None:
    config = json.loads(home.settings.config_file.read_text())
    config["models"]["default"]["max_completion_tokens"] = 100
    # one call reserves its prompt of some thousand tokens: a cent or two
    config["budgets"] = {"usd_per_day": 0.06}
    home.settings.config_file.write_text(json.dumps(config))
    await home.post("/v1/config/load")
    assert (await home.post("/v1/config/apply")).is_success
    provider.default = Answer("done", usage=Usage(prompt_tokens=15_000, completion_tokens=10))
    await home.say("first", "1")
    assert (await home.delivered(1))[0] == "done"
    calls = len(provider.answers)
    await home.say("second", "2")
    question = (await home.delivered(2))[1]
    assert "usd_per_day" in question and "/continue" in question and "$0.06" in question
    assert len(provider.answers) == calls, "the provider was not asked"
    await home.say("/continue", "3")
    assert (await home.delivered(3))[2] == "done"


def spawn() -> Call:
    return Call("choir_core_spawn", {"job_name": "survey", "task_spec": "Survey it."})


def settings_of(provider: OpenAi) -> dict[str, Any]:
    return {
        "model": provider.model,
        "endpoint": provider.endpoint,
        "secret": "key",
        "temperature": None,
        "max_completion_tokens": 100,
        "prices": {"input": INPUT, "cached_input": CACHED, "output": OUTPUT},
    }


@pytest.mark.nightly  # the test above kills, and the one below asks
@pytest.mark.parametrize("raised_by", nightly_from(1, ["continue", "configuration"]))
async def test_a_job_at_its_limit_asks_survives_kills_and_goes_on_when_it_is_allowed(
    home: World, provider: OpenAi, raised_by: str
) -> None:
    async with run_provider(OpenAi(key=MODEL_KEY)) as core:
        change_config(
            home,
            models__core=settings_of(core),
            agents__main__defaults__core_llm="core",
            budgets={"usd_per_job": 0.1},
        )
        await apply(home)
        provider.script(Answer("", (spawn(),)), Answer("Started."))
        provider.default = Answer("The survey is finished.")
        # the first step uses the limit but for a tenth of a cent
        step = Usage(prompt_tokens=33_000, completion_tokens=10)
        look = Call("choir_fs_read", {"path": "notes.txt"})
        core.script(Answer("", (look,), usage=step))
        core.default = Answer("There are twelve beds.", usage=step)
        await home.say("begin", "1")

        async def asked() -> bool:
            return bool(questions(home))

        await until(asked)
        assert "/continue" in questions(home)[0] and "budgets.usd_per_job" in questions(home)[0]
        paid = len(core.answers)
        # neither a killed agent nor a restarted control loses the job, asks again or calls the model
        await kill_and_wait(home)
        await home.stop()
        await home.start(ProcessRuntime(home.home, os.environ))
        await until_running(home)
        assert await home.say("are you there?", "2")
        await home.delivered(3)
        assert len(core.answers) == paid and len(questions(home)) == 1
        if raised_by == "continue":
            await home.say("/continue", "3")
        else:
            change_config(home, budgets={"usd_per_job": 0.5})
            await apply(home)

        async def finished() -> bool:
            rows = await home.database.fetch(STOPPED)
            return [row["outcome"] for row in rows] == ["completed"]

        await until(finished)
    report = await costs(home, by="job")
    (job,) = [line for line in report.lines if line.group]
    exact = Decimal(bill(step) * len(core.answers)) / 1_000_000
    assert (job.calls, job.cost_usd) == (len(core.answers), exact)
    assert report.total.estimated_calls == 0, "nothing was in flight, so nothing is estimated"


STOPPED = """
SELECT payload ->> 'outcome' AS outcome FROM choir_control.session_events WHERE type = 'core_stopped'
"""


def questions(world: World) -> list[str]:
    return [text for text in world.gateway.texts if "The core job survey waits." in text]


async def until_running(world: World) -> int:
    pids: list[int] = []

    async def running() -> bool:
        view = (await world.get("/v1/agents/main")).json()
        if view["state"] == "running" and view["pid"]:
            pids.append(view["pid"])
        return bool(pids)

    await until(running)
    return pids[0]


async def kill_and_wait(world: World) -> None:
    """Kill the agent and wait for its next process."""
    pid = await until_running(world)
    os.kill(pid, signal.SIGKILL)

    async def restarted() -> bool:
        view = (await world.get("/v1/agents/main")).json()
        return view["state"] == "running" and view["pid"] not in (None, pid)

    await until(restarted)
