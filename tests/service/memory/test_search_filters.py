"""What a search may find: filters by time, speaker, kind, tier, origin, trust and tags; what is hidden."""

from datetime import UTC, datetime

import pytest

from choir_common.errors import InvalidRequest
from choir_common.wire.memory_search import MemoryQuery
from tests.service.memory.conftest import Room
from tests.service.memory.lived import remember
from tests.service.memory.test_search import embed_all

SESSION = {"store": "session"}


@pytest.fixture
async def talk(room: Room) -> Room:
    """A walnut in every row, and one thing that sets each apart."""
    await remember(room, "s1", 0, "walnut one", speaker="Ann", origin="user", trust=70)
    await remember(
        room, "s1", 1, "walnut two", speaker="Bob", origin="agent", metadata='{"a": [1]}'
    )
    await remember(room, "s1", 2, "walnut three", kind="tools", origin="web", trust=10)
    june = datetime(2024, 6, 1, tzinfo=UTC)
    await remember(room, "s2", 0, "walnut four", happened_at=june)
    await remember(
        room, "s2", 1, "walnut five", tier="long_term_detail", happened_at=june, metadata='{"a": 1}'
    )
    await embed_all(room)
    return room


@pytest.mark.parametrize("mode", ["semantic", "text"])
@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        ({}, "one two three four five"),
        ({"session_id": "s2"}, "four five"),
        ({"speakers": ("ann", "nobody")}, "one"),
        ({"kinds": ("tools",)}, "three"),
        ({"origins": ("user", "web")}, "one three"),
        ({"min_trust": 60}, "one"),
        ({"since": datetime(2024, 5, 2, tzinfo=UTC)}, "four five"),
        ({"until": datetime(2024, 5, 1, 9, 1, tzinfo=UTC)}, "one"),
        ({"tags": {"a": [1]}}, "two"),
        ({"tiers": ("long_term_detail",)}, "five"),
        ({"speakers": ("Ann",), "kinds": ("tools",)}, ""),
    ],
)
async def test_each_filter_holds_for_both_arms(
    talk: Room, mode: str, filters: dict[str, object], numbers: str
) -> None:
    found = await talk.ask("walnut", mode=mode, **SESSION, **filters)
    assert {hit.text.split()[1] for hit in found.hits} == set(numbers.split())


async def test_what_is_held_retired_or_expired_is_found_only_when_named(room: Room) -> None:
    for status in ("active", "held", "retired"):
        await room.put(f"walnut {status}")
        await room.database.execute(
            "UPDATE choir_main.knowledge_documents SET status = $1, "
            "retired_at = CASE WHEN $1 = 'retired' THEN now() END WHERE text = 'walnut ' || $1",
            status,
        )
    await room.put("walnut expired")
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET expires_at = now() - interval '1 s' "
        "WHERE text = 'walnut expired'"
    )
    await embed_all(room)

    async def found(*include: str) -> set[str]:
        hits = (await room.ask("walnut", include=include)).hits
        return {hit.text.removeprefix("walnut ") for hit in hits}

    assert await found() == {"active"}
    assert await found("held") == {"active", "held"}
    assert await found("retired", "expired") == {"active", "retired", "expired"}


async def test_expired_rows_of_a_session_are_not_found(room: Room) -> None:
    await remember(room, "s", 0, "walnut gone", expires_at=datetime(2024, 1, 1, tzinfo=UTC))
    await embed_all(room)
    assert not (await room.ask("walnut", **SESSION)).hits
    assert (await room.ask("walnut", include=("expired",), **SESSION)).hits


async def test_summaries_of_a_time_are_searched_by_grain_alone(room: Room) -> None:
    await remember(room, "s", 0, "walnut turn")
    period = {"tier": "grain_summary", "grain": "month", "period": "2024-05", "kind": "summary"}
    await remember(room, None, 0, "walnut in May", **period)
    assert [h.text for h in (await room.ask("walnut", **SESSION)).hits] == ["walnut turn"]
    found = await room.ask("walnut", grain="month", **SESSION)
    assert [(h.text, h.tier) for h in found.hits] == [("walnut in May", "grain_summary")]


async def test_a_hit_says_who_when_where_and_how_far_to_trust_it(talk: Room) -> None:
    hit = (await talk.ask("one", mode="text", **SESSION)).hits[0]
    assert (hit.speaker, hit.origin, hit.trust, hit.kind) == ("Ann", "user", 70, "turn")
    assert (hit.session_id, hit.position, hit.tier) == ("s1", 0, "mid_term")
    assert hit.happened_at == datetime(2024, 5, 1, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "more",
    [
        {"speakers": ("Ann",)},
        {"tiers": ("mid_term",)},
        {"grain": "day"},
        {"collection": "book", "store": "session"},
        {"grain": "day", "tiers": ("mid_term",), "store": "session"},
        {"after": 3},
        {"after": 3, "store": "session", "session_id": "s", "mode": "session_detail"},
        {
            "since": datetime(2024, 6, 1, tzinfo=UTC),
            "until": datetime(2024, 6, 1, tzinfo=UTC),
        },
        {"tags": {"a": "x" * 5_000}},
        {"tags": {"a": "\x00"}},
        {"store": "session", "speakers": ("a\x00",)},
    ],
)
async def test_filters_that_do_not_go_together_are_refused(
    room: Room, more: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest):
        await room.ask("walnut", **more)


def test_times_are_read_as_models_write_them() -> None:
    def read(since: str, until: str) -> tuple[datetime | None, datetime | None]:
        given = {"agent_id": "a", "store": "session", "query": "x", "since": since, "until": until}
        query = MemoryQuery.model_validate(given, strict=False)
        return query.since, query.until

    may, june = datetime(2024, 5, 31, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
    assert read("2024-05-31", "2024-05-31") == (may, june), "the last day is meant whole"
    assert read("2024-05-31T00:00:00", "2024-06-01T00:00:00") == (may, june)
    assert read("2024-05-31T00:00:00Z", "2024-06-01T02:00:00+02:00") == (may, june)
