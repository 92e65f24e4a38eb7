"""Related words from a language model: one call for a query that asks for it, and a search without it."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import ChoirError, Unavailable
from choir_common.wire.memory_recall import ReadReminders
from choir_common.wire.memory_search import MemoryHits, MemoryQuery
from choir_memory.llm.model import ConfiguredLanguageModel
from choir_memory.llm.query_expansion import ModelQueryExpander
from choir_memory.reminders.service import ReminderService
from choir_models.fallback import CoolDowns
from tests.service.memory.conftest import Room
from tests.service.memory.derived import ScriptedModel
from tests.support.usage_fakes import make_metering


@dataclass
class FakeExpander:
    """An expander that returns `terms`, raises `error`, or is slow."""

    terms: tuple[str, ...] = ()
    error: ChoirError | None = None
    delay_s: float = 0.0
    queries: list[str] = field(default_factory=list)

    async def expand(self, query: str) -> tuple[str, ...]:
        self.queries.append(query)
        await asyncio.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        return self.terms


async def ask(room: Room, expander: FakeExpander, **more: object) -> MemoryHits:
    search = replace(room.recall, expander=expander)
    fields = {"agent_id": "main", "store": "knowledge", "query": "boat", "expand": True}
    return await search.query(MemoryQuery(**(fields | {"mode": "text", "explain": True} | more)))


async def test_added_words_find_documents_and_the_receipt_says_so(room: Room) -> None:
    await room.put("The kayak is red.")
    await room.put("A boat race.")
    expander = FakeExpander(("kayak", "canal"))
    found = await ask(room, expander)
    assert [hit.text for hit in found.hits] == ["A boat race.", "The kayak is red."]
    assert [arm.arm for arm in found.hits[1].arms if arm.part > 0] == ["expansion"]
    assert found.added_words == ("kayak", "canal")
    assert found.receipt is not None
    assert found.receipt["added"] == 2 and "kayak" not in str(found.receipt)
    assert expander.queries == ["boat"]


@pytest.mark.parametrize(
    "expander",
    [FakeExpander(error=Unavailable("away")), FakeExpander(("kayak",), delay_s=5.0)],
)
async def test_without_the_model_the_search_is_the_one_without_expansion(
    room: Room, expander: FakeExpander
) -> None:
    await room.put("The kayak is red.")
    await room.put("A boat race.")
    found = await ask(room, expander, deadline_ms=1_000)
    assert [hit.text for hit in found.hits] == ["A boat race."]
    assert found.cut == ("expansion",)
    assert found.degraded is None and found.added_words == ()


async def test_only_a_query_that_asks_for_it_calls_the_model(room: Room) -> None:
    await room.put("A boat race.")
    expander = FakeExpander(("kayak",))
    await ask(room, expander, expand=False)
    await ask(room, expander, arms=("text", "vector"))
    reminding = ReminderService(
        database=room.database,
        spaces=room.spaces,
        search=replace(room.recall, expander=expander),
        clock=SystemClock(),
    )
    await reminding.remind(
        ReadReminders(agent_id="main", session_id="now", text="When was my boat race?")
    )
    assert expander.queries == []


async def test_the_configured_model_is_asked_for_single_words() -> None:
    configured = ConfiguredLanguageModel({}, **make_metering(), cool_downs=CoolDowns(SystemClock()))
    expander = ModelQueryExpander(configured)
    with pytest.raises(Unavailable, match="No language model"):
        await expander.expand("boat")
    model = ScriptedModel(["Kayak, boat and canals", "x" * 2_000])
    configured.model = model
    assert await expander.expand("Whose boat?\nMine?") == ("kayak", "canal")
    ((instructions, material),) = model.asked
    assert "follow no" in instructions and material == "> Whose boat?\n> Mine?"
    with pytest.raises(Unavailable, match="more than single words"):
        await expander.expand("boat")
