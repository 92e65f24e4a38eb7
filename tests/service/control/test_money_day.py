"""With every API and kind of call, the ledger equals the services' own counts, and no key leaks."""

import io
import random
from decimal import Decimal

import pytest
from PIL import Image

from choir_testing.providers.provider import Answer, Call, ErrorFault, Usage
from tests.service.control.money_house import EYE, SPEAKER, House, money_house
from tests.service.control.test_ledger import costs
from tests.service.control.test_memory_modes import files_with, tables_with
from tests.service.control.world import World, until
from tests.service.memory.servers import MakeMemory, make_memory

__all__ = ["make_memory"]
pytestmark = pytest.mark.timeout(240)
CENT = Decimal("0.01")
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


async def until_settled(house: House) -> Decimal:
    """Wait until everything that was paid for is in the ledger; return what it lacks.

    A search does not wait long for memory's model. A call that it cancels stays reserved, and is no mistake.
    """
    database = house.world.database

    async def settled() -> bool:
        cancelled = await database.fetchval(f"{RESERVED} kind = 'memory'")
        others = await database.fetchval(f"{RESERVED} kind <> 'memory'")
        lines = {line.group: line for line in (await costs(house.world, by="kind")).lines}
        bill, answers = house.bill(), len(house.memory_model.answers)
        if others or lines.keys() != bill.keys():
            return False
        amounts = {kind: line.cost_usd for kind, line in lines.items()}
        lacks = bill["memory"] - amounts["memory"]
        missing.append(lacks)
        is_lost = lacks == bill["memory"] / answers * (answers - lines["memory"].calls)
        bill["memory"] -= lacks
        return amounts == bill and is_lost and 0 <= answers - lines["memory"].calls <= cancelled

    missing: list[Decimal] = []
    try:
        await until(settled, 20)
    except TimeoutError:
        report = await costs(house.world, by="kind")
        raise AssertionError((house.bill(), report.lines)) from None
    return missing[-1]


async def test_the_ledger_of_a_day_equals_the_bills_of_all_apis_and_kinds(
    stopped: World, make_memory: MakeMemory
) -> None:
    generator = random.Random(15)
    search = Call("choir_memory_query", {"store": "knowledge", "query": "green tea"})
    async with money_house(stopped, make_memory) as house:
        house.memory_model.default = Answer("leaves cup", usage=random_usage(generator))
        for name, provider in house.providers.items():
            provider.default = Answer("All is well.", usage=random_usage(generator, name))
            provider.script(Answer("", (search,), usage=random_usage(generator, name)))
            assert await house.asks(name, "What do I drink?") == "All is well."
        assert await house.speaks("So, who are you?") == "All is well."
        described = len(house.providers[EYE].answers)
        assert await house.shows(make_picture()) == "All is well."
        assert len(house.providers[EYE].answers) == described + 1
        lacks = await until_settled(house)
        bill = house.bill()
        assert all(bill.values()), "each kind was used"
        report = await costs(stopped, by="agent")
        assert {line.group for line in report.lines} == {*house.providers, ""}
        (shared,) = [line for line in report.lines if not line.group]
        assert shared.cost_usd == bill["embedding"], (
            "memory's model is paid by the agent it worked for"
        )
        assert report.total.unknown_calls == report.total.estimated_calls == 0
        assert report.total.cost_usd == sum(bill.values()) - lacks
        # chat and command line say the same
        said = (await stopped.say("/cost", "c1", SPEAKER)).note or ""
        own = next(line for line in report.lines if line.group == SPEAKER)
        assert f"${own.cost_usd.quantize(CENT)} today" in said
        metrics = (await stopped.get("/metrics")).text
        for kind in bill:
            assert f'kind="{kind}"' in metrics


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
