"""The turns that support facts which link what a query names."""

from choir_common.wire.memory_search import MemoryHit
from tests.service.memory.conftest import Room
from tests.service.memory.derived import answer, propose
from tests.service.memory.test_facts import say
from tests.service.memory.test_reminders import learn

MOVED = ("2026-03-01T09:00", "Ana", "My brother Tom is in Oslo for good.")
WEATHER = ("2026-03-02T09:00", "Ana", "Tom likes rain, and Oslo has a lot.")
TOM_IN_OSLO = propose(
    subject="Tom", predicate="lives in", object="Oslo", text="Tom lives in Oslo.",
    quote="Tom is in Oslo for good",
)  # fmt: skip


def entity_part(hit: MemoryHit) -> float:
    return next((arm.part for arm in hit.arms if arm.arm == "entity"), 0.0)


async def linked_texts(room: Room, query: str, **more: object) -> list[str]:
    found = await room.ask(query, store="session", **more)
    return [hit.text for hit in found.hits if entity_part(hit) > 0]


async def test_the_turn_that_supports_a_linking_fact_gains(room: Room) -> None:
    await say(room, MOVED)
    await learn(room, answer(TOM_IN_OSLO))
    await say(room, WEATHER)
    assert await linked_texts(room, "Does Tom know Oslo?") == [MOVED[2]]
    found = await room.ask("Does Tom know Oslo?", store="session", explain=True)
    assert found.receipt is not None
    assert found.receipt["arms"]["entity"] == {"found": 1}


async def test_a_named_relation_is_enough_and_a_name_alone_is_not(room: Room) -> None:
    await say(room, MOVED)
    await learn(room, answer(TOM_IN_OSLO))
    assert await linked_texts(room, "Where does Tom live?") == [MOVED[2]]
    assert await linked_texts(room, "When did Tom call?") == []


async def test_retired_facts_filters_and_ablation_leave_the_turn_as_it_was(room: Room) -> None:
    await say(room, MOVED)
    await learn(room, answer(TOM_IN_OSLO))
    query = "Does Tom know Oslo?"
    assert await linked_texts(room, query, arms=("text", "vector")) == []
    assert await linked_texts(room, query, exclude_session="s1") == []
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET status = 'retired', retired_at = now() "
        "WHERE kind = 'fact'"
    )
    assert await linked_texts(room, query) == []
