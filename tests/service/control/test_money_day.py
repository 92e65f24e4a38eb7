"""With every API and kind of call, the ledger equals the services' own counts, and no key leaks."""

import io
import random
from decimal import Decimal
from typing import Any

import pytest
from PIL import Image

from choir_testing.providers.provider import Answer, Call, ErrorFault, FakeProvider, Usage
from tests.service.control.money_house import BLIND, EYE, SPEAKER, House, money_house
from tests.service.control.test_ledger import costs
from tests.service.control.test_memory_modes import files_with, tables_with
from tests.service.control.world import World, until
from tests.service.memory.servers import MakeMemory, make_memory
from tests.support.nightly import nightly_from

__all__ = ["make_memory"]
pytestmark = pytest.mark.timeout(600)
CENT = Decimal("0.01")
FEW = (SPEAKER, EYE, BLIND, "openrouter")
"""Those that hear, see and do not see, and one that states its price; test_usage.py has each API's counts."""
RESERVED = "SELECT count(*) FROM choir_control.budget_reservations WHERE"


def random_usage(generator: random.Random, name: str = "") -> Usage:
    prompt, completion = generator.randint(5_000, 90_000), generator.randint(100, 4_000)
    cached = generator.randint(0, prompt // 2)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=generator.randint(0, (prompt - cached) // 2),
        reasoning_tokens=generator.randint(0, completion),
        billed_usd=generator.randint(1, 90_000) / 1_000_000 if name == "openrouter" else None,
    )


def make_picture() -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(written, "PNG")
    return written.getvalue()


MEMORY_ESTIMATES = """
SELECT count(*) AS calls, coalesce(sum(cost_usd), 0) AS cost_usd
FROM choir_control.ledger WHERE source = 'estimated' AND kind = 'memory'
"""


async def until_settled(house: House) -> Decimal:
    """Wait until everything that was paid for is in the ledger; return what it has more than the bills.

    A search does not wait long for memory's models. A call that it cancels is in the ledger as an estimate,
    which is more than the embedding of these words costs.
    """
    database = house.world.database

    async def settled() -> bool:
        reserved = await database.fetchval(f"{RESERVED} true")
        estimates = await database.fetchrow(MEMORY_ESTIMATES)
        lines = {line.group: line for line in (await costs(house.world, by="kind")).lines}
        bill, answers = house.bill(), len(house.memory_model.answers)
        if reserved or lines.keys() != bill.keys() or estimates is None:
            return False
        amounts = {kind: line.cost_usd for kind, line in lines.items()}
        amounts["memory"] -= estimates["cost_usd"]
        estimated = amounts.pop("embedding") - bill.pop("embedding")
        uncounted = answers - (lines["memory"].calls - estimates["calls"])
        lacks = bill["memory"] / answers * uncounted
        surplus.append(estimates["cost_usd"] - lacks + estimated)
        bill["memory"] -= lacks
        if estimated < 0 or lines["embedding"].calls != len(house.embedding.batches):
            return False
        return amounts == bill and 0 <= uncounted <= estimates["calls"]

    surplus: list[Decimal] = []
    try:
        await until(settled, 20)
    except TimeoutError:
        report = await costs(house.world, by="kind")
        raise AssertionError((house.bill(), report.lines)) from None
    return surplus[-1]


@pytest.mark.parametrize("names", nightly_from(1, [FEW, ()]), ids=["few", "all"])
async def test_the_ledger_of_a_day_equals_the_bills_of_all_apis_and_kinds(
    stopped: World, make_memory: MakeMemory, names: tuple[str, ...]
) -> None:
    generator = random.Random(15)
    search = Call("choir_memory_query", {"store": "knowledge", "query": "green tea"})
    async with money_house(stopped, make_memory, names=names) as house:
        house.memory_model.default = Answer("leaves cup", usage=random_usage(generator))
        for name, provider in house.providers.items():
            provider.default = Answer("All is well.", usage=random_usage(generator, name))
            provider.script(Answer("", (search,), usage=random_usage(generator, name)))
            assert await house.asks(name, "What do I drink?") == "All is well."
        assert await house.speaks("So, who are you?") == "All is well."
        described = len(house.providers[EYE].answers)
        assert await house.shows(make_picture()) == "All is well."
        assert len(house.providers[EYE].answers) == described + 1
        surplus = await until_settled(house)
        bill = house.bill()
        assert all(bill.values()), "each kind was used"
        report = await costs(stopped, by="agent")
        assert {line.group for line in report.lines} == {*house.providers, ""}
        (shared,) = [line for line in report.lines if not line.group]
        kinds = {line.group: line for line in (await costs(stopped, by="kind")).lines}
        assert shared.cost_usd == kinds["embedding"].cost_usd, (
            "memory's model is paid by the agent it worked for"
        )
        assert report.total.unknown_calls == 0
        assert report.total.cost_usd == sum(bill.values()) + surplus
        # chat and command line say the same
        said = (await stopped.say("/cost", "c1", SPEAKER)).note or ""
        own = next(line for line in report.lines if line.group == SPEAKER)
        assert f"${own.cost_usd.quantize(CENT)} today" in said
        metrics = (await stopped.get("/metrics")).text
        for kind in bill:
            assert f'kind="{kind}"' in metrics


@pytest.mark.nightly  # tests/security/whole/test_canary.py looks for the key of a model, too
async def test_no_key_is_in_logs_events_messages_exports_or_tables(
    stopped: World, make_memory: MakeMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    async with money_house(stopped, make_memory) as house:
        for name, provider in house.providers.items():
            key = house.keys[name]
            # providers quote the key that they refuse, and a model may repeat one that it has read
            provider.script(ErrorFault("key", f"Incorrect API key provided: {key}."))
            provider.default = Answer(f"My key is {key}." if key else "None.")
            await house.asks(name, "What is your key?")
            await house.asks(name, "And now?")
        house.memory_model.default = ErrorFault("key", f"Bad key {house.keys['memory']}.")
        house.embedding.mood = "unauthorized"
        search = Call("choir_memory_query", {"store": "knowledge", "query": "tea"})
        house.providers[SPEAKER].script(Answer("", (search,)))
        await house.asks(SPEAKER, "What do I drink?")
        house.speech.key = "another"
        heard = await house.speaks("Hello?")
        assert "refused its key" in heard
        key = house.keys[EYE]
        house.providers[EYE].script(ErrorFault("key", f"Incorrect API key provided: {key}."))
        await house.shows(make_picture())
        shown = [
            capsys.readouterr().out,
            house.memory.log,
            str(stopped.gateway.delivered),
            (await stopped.get("/metrics")).text,
            (await stopped.get("/v1/cost?by=session")).text,
            (await stopped.get("/v1/config")).text,
            (await stopped.get("/v1/status")).text,
            (await stopped.get(f"/v1/agents/{SPEAKER}/memory/export")).text,
        ]
        for name, key in house.keys.items():
            if not key:
                continue
            assert not [text for text in shown if key in text], name
            assert await tables_with(stopped.database, key) == [], name
            assert files_with(stopped.home, key) == [], name


LONG = " ".join(f"word {number}" for number in range(200))
ESTIMATED = """
SELECT agent_id, sum(calls)::int AS calls, sum(cost_usd) AS cost_usd, sum(completion_tokens)::int AS tokens
FROM choir_control.ledger WHERE source = 'estimated' AND kind = 'chat' GROUP BY 1
"""


@pytest.mark.nightly  # tests/service/control/test_money_budgets.py has calls that are cut and cancelled
@pytest.mark.parametrize("limits", [{"usd_per_day": 1_000}, {}], ids=["limited", "unlimited"])
async def test_cut_cancelled_and_filtered_calls_are_in_the_ledger_exactly_or_as_estimates(
    stopped: World, make_memory: MakeMemory, limits: dict[str, int]
) -> None:
    generator = random.Random(16)

    def edit(config: dict[str, Any]) -> None:
        config["budgets"] = limits
        config["rate_limit_retry_ms"] = 10

    async with money_house(stopped, make_memory, edit) as house:
        unknown: dict[str, list[Answer]] = {}
        for name, provider in house.providers.items():
            exact = Answer("All is well.", usage=random_usage(generator, name))
            provider.default = exact
            # refused before the first token: free
            provider.script(ErrorFault("server"))
            cut = Answer(LONG, usage=random_usage(generator, name), abort_after=30)
            provider.script(cut)
            assert await house.asks(name, "Is it cut off?") == "All is well."
            if provider.filters_content:
                filtered = Answer(LONG, usage=random_usage(generator, name), is_filtered=True)
                provider.script(filtered)
                assert "I could not" in await house.asks(name, "Is it filtered?")
            slow = Answer(LONG, usage=random_usage(generator, name), pause_s=0.1)
            provider.script(slow)
            await cancel_when_it_answers(house, name, provider)
            unknown[name] = [cut, slow]
        database = stopped.database

        async def recorded() -> bool:
            rows = await database.fetch(ESTIMATED)
            return {row["agent_id"]: row["calls"] for row in rows} == dict.fromkeys(unknown, 2)

        await until(recorded)
        rows = await database.fetch(ESTIMATED)
        assert all(row["cost_usd"] > 0 and row["tokens"] > 20 for row in rows)
        for name, provider in house.providers.items():
            provider.answers = [one for one in provider.answers if one not in unknown[name]]

        async def settled() -> bool:
            return await database.fetchval(f"{RESERVED} kind = 'chat'") == 0

        await until(settled)
        report = await costs(stopped, by="kind")
        (chat,) = [line for line in report.lines if line.group == "chat"]
        assert chat.estimated_calls == 2 * len(unknown)
        estimates = sum(row["cost_usd"] for row in rows)
        assert chat.cost_usd - estimates == house.bill()["chat"]


async def cancel_when_it_answers(house: House, name: str, provider: FakeProvider) -> None:
    """Ask an agent, and cancel its turn after its model began to answer."""
    answers = len(provider.answers)
    provider.client_left.clear()
    await house.world.say("Tell me all.", f"slow-{name}", name)

    async def began() -> bool:
        return len(provider.answers) > answers

    await until(began)
    await house.world.say("/cancel", f"cancel-{name}", name)

    async def left() -> bool:
        return provider.client_left.is_set()

    await until(left)
