"""Lists without a query: summaries by grain and age, and the filters that lists share with searches."""

from datetime import UTC, datetime, timedelta

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.memory_operator import ListMemory
from choir_common.wire.memory_search import MemoryQuery
from tests.service.memory.conftest import Room, make_search
from tests.service.memory.derived import SetClock, live_turns
from tests.service.memory.lived import remember
from tests.service.memory.operators import make_operator
from tests.service.memory.test_grains import CAT, LATER, ROOF, make

SPRING = datetime(2024, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def lived(room: Room) -> Room:
    """Two days in January and one in February, with their summaries, searched on the first of March."""
    await room.spaces.ensure("main")
    await live_turns(room.database, [ROOF, CAT, LATER])
    await make(room, "2025-06-01").run_agent("main")
    room.recall = make_search(room.database, room.spaces, room.embedders, SetClock(SPRING))
    return room


async def periods(room: Room, **more: object) -> list[str | None]:
    """Return the periods of the summaries listed."""
    found = await room.ask("", store="session", **more)
    assert {(hit.tier, hit.grain) for hit in found.hits} <= {("grain_summary", more["grain"])}
    assert [hit.score for hit in found.hits] == [0.0] * len(found.hits)
    return [hit.period for hit in found.hits]


async def test_summaries_are_listed_newest_first_by_grain_alone(lived: Room) -> None:
    assert await periods(lived, grain="day") == ["2024-02-20", "2024-01-16", "2024-01-15"]
    assert await periods(lived, grain="week") == ["2024-W08", "2024-W03"]
    assert await periods(lived, grain="month") == ["2024-02", "2024-01"]
    assert await periods(lived, grain="quarter") == ["2024-Q1"]
    assert await periods(lived, grain="year") == ["2024"]
    assert await periods(lived, grain="day", limit=1) == ["2024-02-20"]


@pytest.mark.parametrize(
    ("limits", "days"),
    [
        ({"max_days_ago": 20}, ["2024-02-20"]),
        ({"min_days_ago": 20}, ["2024-01-16", "2024-01-15"]),
        # the sixteenth of January ended on the seventeenth at midnight, 44.5 days ago
        ({"min_days_ago": 20, "max_days_ago": 45}, ["2024-01-16"]),
        ({"since": "2024-01-16", "until": "2024-01-31"}, ["2024-01-16"]),
        ({"since": "2024-01-16", "min_days_ago": 20}, ["2024-01-16"]),
        ({"max_days_ago": 3}, []),
    ],
)
async def test_summaries_are_listed_by_age(
    lived: Room, limits: dict[str, object], days: list[str]
) -> None:
    assert await periods(lived, grain="day", **limits) == days


async def test_a_period_is_listed_if_any_day_of_it_is_in_the_range(lived: Room) -> None:
    assert await periods(lived, grain="month", since="2024-02-15") == ["2024-02"]
    assert await periods(lived, grain="month", until="2024-01-10") == ["2024-01"]


async def test_turns_and_knowledge_of_a_time_are_listed_too(lived: Room) -> None:
    found = await lived.ask("", store="session", max_days_ago=30)
    assert [hit.text for hit in found.hits] == [LATER[2]]
    await lived.put("A note of today.")
    notes = await lived.ask("", since=datetime.now(UTC) - timedelta(hours=1), explain=True)
    assert [hit.text for hit in notes.hits] == ["A note of today."]
    assert notes.receipt is not None and notes.receipt["filters"] == ["since"]


async def test_searches_with_a_query_take_an_age_too(lived: Room) -> None:
    found = await lived.ask("roof harbour", store="session", mode="text", max_days_ago=30)
    assert [hit.text for hit in found.hits] == [LATER[2]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"store": "session"}, "must not be blank"),
        ({"store": "knowledge", "tags": {"a": 1}}, "must not be blank"),
        ({"store": "session", "min_days_ago": 5, "max_days_ago": 5}, "min_days_ago"),
        ({"store": "session", "grain": "day", "min_score": 0.5}, "min_score"),
        ({"store": "knowledge", "grain": "day"}, "grain"),
    ],
)
async def test_a_list_of_everything_is_refused(
    lived: Room, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        await lived.recall.query(MemoryQuery.model_validate({"agent_id": "main", **fields}))


async def test_operators_list_with_the_filters_of_a_search(lived: Room) -> None:
    reader = make_operator(lived).reader

    async def listed(**more: object) -> list[str]:
        fields = {"agent_id": "main", "store": "session", **more}
        page = await reader.list(ListMemory.model_validate(fields))
        return [one.period or one.text for one in page.items]

    assert await listed(grain="week") == ["2024-W08", "2024-W03"]
    assert await listed(grain="week", until="2024-01-31") == ["2024-W03"]
    assert await listed(kinds=("turn",), since="2024-02-01") == [LATER[2]]
    assert await listed(speakers=("nobody",)) == []
    await remember(lived, "s9", 0, "tagged", metadata='{"scope": "farm"}', trust=90)
    assert await listed(tags={"scope": "farm"}) == ["tagged"] == await listed(min_trust=90)
    assert len(await listed(scopes=("town",), kinds=("turn",))) == 3
    for more in ({"key_prefix": "k"}, {"store": "knowledge", "grain": "day"}):
        with pytest.raises(InvalidRequest, match="set the store"):
            await listed(**more)
