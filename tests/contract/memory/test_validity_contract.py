"""Status, validity, successors, scopes and lists of knowledge: the service and its fake answer alike."""

from datetime import UTC, datetime, timedelta

import pytest

from choir_common.clients.memory import MemoryClient
from choir_common.errors import ChoirError, Forbidden, InvalidRequest, NotFound
from choir_common.wire.memory_recall import ReadReminders
from choir_common.wire.memory_search import MemoryHit
from tests.contract.memory.test_memory_contract import agent_id, ask, put

__all__ = ["agent_id"]

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
ALL = ("held", "retired", "expired")


async def hits(
    memory: MemoryClient, agent_id: str, query: str = "walnut", **more: object
) -> dict[str | None, MemoryHit]:
    """Return the hits by key; by words alone, because meaning finds other documents, too."""
    found = await memory.query(ask(agent_id, query, mode="text", **more))
    return {hit.key: hit for hit in found.hits}


async def statuses(
    memory: MemoryClient, agent_id: str, **more: object
) -> dict[str | None, tuple[str, tuple[str, ...]]]:
    """Return the status and the successors of every hit."""
    every = await hits(memory, agent_id, include=ALL, **more)
    return {key: (hit.status, hit.superseded_by) for key, hit in every.items()}


async def test_what_was_superseded_is_found_on_request_and_names_its_successor(
    memory: MemoryClient, agent_id: str
) -> None:
    old = await memory.upsert(put(agent_id, "walnut one", key="old"))
    new = await memory.upsert(put(agent_id, "walnut two", key="new", supersedes=("old",)))
    assert new.superseded == (old.document_id,)
    assert set(await hits(memory, agent_id)) == {"new"}
    expected = {"old": ("retired", (new.document_id,)), "new": ("active", ())}
    assert await statuses(memory, agent_id) == expected
    again = put(agent_id, "walnut two", operation="update", key="new", supersedes=("old",))
    assert (await memory.upsert(again)).superseded == ()


async def test_what_its_successor_ended_is_valid_again_after_that_is_deleted(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "walnut one", key="old", valid_to=NOW + 9 * DAY))
    await memory.upsert(put(agent_id, "walnut two", key="new", supersedes=("old",)))
    await memory.upsert(put(agent_id, operation="delete", key="new"))
    (hit,) = (await hits(memory, agent_id)).values()
    assert (hit.key, hit.status, hit.valid_to) == ("old", "active", NOW + 9 * DAY)
    assert hit.superseded_by == () and hit.metadata == {}


async def test_a_start_and_an_end_decide_the_status(memory: MemoryClient, agent_id: str) -> None:
    await memory.upsert(put(agent_id, "walnut", key="past", valid_to=NOW - DAY))
    await memory.upsert(put(agent_id, "walnut", key="next", valid_from=NOW + DAY))
    await memory.upsert(put(agent_id, "walnut", key="kept", status="held"))
    await memory.upsert(put(agent_id, "walnut", key="over", status="retired"))
    assert {key: hit.status for key, hit in (await hits(memory, agent_id)).items()} == {
        "next": "upcoming"
    }
    shown = {key: status for key, (status, _) in (await statuses(memory, agent_id)).items()}
    assert shown == {"past": "expired", "next": "upcoming", "kept": "held", "over": "retired"}
    wanted = ReadReminders(agent_id=agent_id, session_id="s1", text="walnut")
    assert [one.valid_from for one in (await memory.remind(wanted)).reminders] == [NOW + DAY]


async def test_an_update_without_a_text_changes_the_validity_and_a_text_makes_it_valid_again(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "walnut", key="k", metadata={"a": 1}))
    ended = await memory.upsert(put(agent_id, operation="update", key="k", valid_to=NOW))
    assert (ended.operation, ended.version) == ("updated", 2)
    assert await hits(memory, agent_id) == {}
    (hit,) = (await hits(memory, agent_id, include=("expired",))).values()
    assert (hit.text, hit.metadata, hit.valid_to) == ("walnut", {"a": 1}, NOW)
    await memory.upsert(put(agent_id, "walnut", operation="update", key="k"))
    (hit,) = (await hits(memory, agent_id)).values()
    assert (hit.status, hit.valid_to, hit.version) == ("active", None, 3)


async def test_what_was_superseded_before_it_began_can_be_retired_and_written_again(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "walnut", key="old", valid_from=NOW + DAY))
    await memory.upsert(put(agent_id, "hazel", key="new", supersedes=("old",)))
    await memory.upsert(put(agent_id, operation="update", key="old", status="retired"))
    await memory.upsert(put(agent_id, "walnut", operation="update", key="old"))
    (hit,) = (await hits(memory, agent_id)).values()
    assert (hit.status, hit.valid_from, hit.valid_to) == ("upcoming", NOW + DAY, None)
    assert hit.superseded_by == ()


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "insert", "text": "new", "key": "x", "supersedes": ("own",)},
        {"operation": "update", "key": "own", "status": "retired"},
        {"operation": "update", "key": "own", "valid_to": NOW},
        {"operation": "update", "key": "own", "text": "new", "valid_to": NOW},
        {"operation": "update", "key": "own", "text": "new", "status": "held"},
        {"operation": "delete", "key": "own"},
    ],
)
async def test_a_write_after_strangers_were_read_ends_nothing_of_more_trust(
    memory: MemoryClient, agent_id: str, change: dict[str, object]
) -> None:
    await memory.upsert(put(agent_id, "walnut", key="own"))
    with pytest.raises(Forbidden, match="own has trust 50"):
        await memory.upsert(put(**{"agent_id": agent_id, "outside": True, **change}))
    assert await statuses(memory, agent_id) == {"own": ("active", ())}
    assert await hits(memory, agent_id, "new") == {}


async def test_a_write_after_strangers_were_read_may_end_what_has_as_little_trust(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "walnut", key="k", outside=True))
    await memory.upsert(put(agent_id, operation="update", key="k", status="held", outside=True))
    assert await statuses(memory, agent_id) == {"k": ("held", ())}
    await memory.upsert(put(agent_id, operation="delete", key="k", outside=True))
    assert await statuses(memory, agent_id) == {}


async def test_a_note_rewritten_after_strangers_were_read_loses_its_trust(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "walnut one", key="k"))
    await memory.upsert(put(agent_id, "walnut two", operation="update", key="k", outside=True))
    (hit,) = (await hits(memory, agent_id)).values()
    assert (hit.text, hit.trust) == ("walnut two", 10)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"text": "new", "supersedes": ("nothing",)}, NotFound),
        ({"text": "new", "supersedes": ("own",), "status": "held"}, InvalidRequest),
        ({"text": "new", "valid_from": NOW, "valid_to": NOW}, InvalidRequest),
        ({"operation": "update", "key": "own", "supersedes": ("own",)}, InvalidRequest),
        ({"operation": "update", "key": "own", "status": "held", "metadata": {"a": 1}},
         InvalidRequest),
        ({"operation": "update", "key": "nothing", "status": "held"}, NotFound),
        ({"operation": "delete", "key": "own", "valid_to": NOW}, InvalidRequest),
        ({"operation": "insert", "status": "held"}, InvalidRequest),
    ],
)  # fmt: skip
async def test_a_validity_that_does_not_fit_is_refused_and_changes_nothing(
    memory: MemoryClient, agent_id: str, change: dict[str, object], error: type[ChoirError]
) -> None:
    await memory.upsert(put(agent_id, "walnut", key="own"))
    with pytest.raises(error):
        await memory.upsert(put(**{"agent_id": agent_id, **change}))
    assert await statuses(memory, agent_id) == {"own": ("active", ())}
    assert await hits(memory, agent_id, "new") == {}


async def test_scopes_tags_and_a_floor_limit_what_is_found(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "walnut gate barn", key="all"))
    farm = {"scope": "farm", "by": "Ann"}
    await memory.upsert(put(agent_id, "walnut", key="farm", metadata=farm))
    await memory.upsert(put(agent_id, "walnut", key="town", metadata={"scope": "town"}))
    assert set(await hits(memory, agent_id, scopes=("farm",))) == {"all", "farm"}
    assert set(await hits(memory, agent_id, tags={"by": "Ann"})) == {"farm"}
    strong = await hits(memory, agent_id, "walnut gate barn", min_score=0.6)
    assert set(strong) == {"all"}
    wanted = ReadReminders(
        agent_id=agent_id, session_id="s1", text="walnut", scopes=("town",), tags={"scope": "town"}
    )
    (reminder,) = (await memory.remind(wanted)).reminders
    assert reminder.document_id == (await hits(memory, agent_id))["town"].document_id


async def test_without_words_the_newest_documents_of_a_time_are_listed(
    memory: MemoryClient, agent_id: str
) -> None:
    for key in ("first", "second"):
        await memory.upsert(put(agent_id, "walnut", key=key))
    listed = await memory.query(ask(agent_id, "", max_days_ago=1))
    assert [(hit.key, hit.score, hit.arms) for hit in listed.hits] == [
        ("second", 0.0, ()),
        ("first", 0.0, ()),
    ]
    assert (await memory.query(ask(agent_id, "", min_days_ago=1))).hits == ()
    assert (await memory.query(ask(agent_id, "", since=NOW - DAY, limit=1))).hits[0].key == "second"


@pytest.mark.parametrize(
    "more",
    [
        {"query": "", "min_score": 0.5, "max_days_ago": 1},
        {"min_days_ago": 3, "max_days_ago": 3},
        {"since": NOW, "until": NOW},
        {"grain": "day"},
    ],
)
async def test_filters_that_do_not_fit_are_refused(
    memory: MemoryClient, agent_id: str, more: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest):
        await memory.query(ask(agent_id, **more))
