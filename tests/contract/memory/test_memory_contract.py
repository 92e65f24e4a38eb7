"""What control may rely on when it calls the memory service; the fake keeps the same promises."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from choir_common.clients.memory import MemoryClient
from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.wire.memory_recall import ReadHints, ReadReminders, ToolHints
from choir_common.wire.memory_search import (
    EnsureSpace,
    MemoryQuery,
    MemoryUpsert,
    ReadSearchReceipt,
)


@pytest.fixture
def agent_id() -> str:
    return f"a{uuid4().hex[:12]}"


def put(agent_id: str, text: str | None = None, **more: object) -> MemoryUpsert:
    fields = {"agent_id": agent_id, "call_id": uuid4().hex, "operation": "insert", "text": text}
    return MemoryUpsert(**(fields | more))


def ask(agent_id: str, query: str = "walnut", **more: object) -> MemoryQuery:
    return MemoryQuery(**({"agent_id": agent_id, "store": "knowledge", "query": query} | more))


async def test_what_was_written_is_found_with_key_times_and_metadata(
    memory: MemoryClient, agent_id: str
) -> None:
    made = await memory.upsert(
        put(agent_id, "The walnut tree fell.", key="garden.tree", metadata={"tags": ["garden"]})
    )
    assert (made.operation, made.embedded, made.key) == ("inserted", "queued", "garden.tree")
    found = await memory.query(ask(agent_id))
    assert "text" in found.arms_used
    hit = found.hits[0]
    assert (hit.document_id, hit.key, hit.text) == (
        made.document_id,
        "garden.tree",
        "The walnut tree fell.",
    )
    assert hit.metadata == {"tags": ["garden"]}
    assert hit.score > 0
    assert any(arm.arm == "text" and arm.rank == 1 for arm in hit.arms)
    assert abs(hit.created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert hit.updated_at == hit.created_at


async def test_update_by_key_makes_then_replaces_then_leaves_alone(
    memory: MemoryClient, agent_id: str
) -> None:
    done = [
        await memory.upsert(put(agent_id, text, operation="update", key="k"))
        for text in ("walnut one", "walnut two", "walnut two")
    ]
    assert [one.operation for one in done] == ["inserted", "updated", "unchanged"]
    assert [one.embedded for one in done] == ["queued", "queued", "none"]
    assert len({one.document_id for one in done}) == 1
    hits = (await memory.query(ask(agent_id))).hits
    assert [hit.text for hit in hits] == ["walnut two"]
    assert hits[0].updated_at > hits[0].created_at


async def test_update_and_delete_work_by_id_too(memory: MemoryClient, agent_id: str) -> None:
    made = await memory.upsert(put(agent_id, "walnut"))
    name = made.document_id
    changed = await memory.upsert(put(agent_id, "hazel", operation="update", document_id=name))
    assert changed.operation == "updated"
    gone = await memory.upsert(put(agent_id, operation="delete", document_id=name))
    assert (gone.operation, gone.embedded) == ("deleted", "none")
    assert (await memory.query(ask(agent_id, "hazel"))).hits == ()


async def test_what_is_not_there_cannot_be_changed_or_deleted(
    memory: MemoryClient, agent_id: str
) -> None:
    for operation, text in (("update", "x"), ("delete", None)):
        with pytest.raises(NotFound):
            await memory.upsert(put(agent_id, text, operation=operation, document_id=str(uuid4())))
    with pytest.raises(NotFound, match="nothing-here"):
        await memory.upsert(put(agent_id, operation="delete", key="nothing-here"))


async def test_a_call_id_is_one_write(memory: MemoryClient, agent_id: str) -> None:
    write = put(agent_id, "walnut")
    assert await memory.upsert(write) == await memory.upsert(write)
    assert len((await memory.query(ask(agent_id))).hits) == 1
    with pytest.raises(Conflict, match=write.call_id):
        await memory.upsert(put(agent_id, "other", call_id=write.call_id))


async def test_a_call_id_belongs_to_its_agent(memory: MemoryClient, agent_id: str) -> None:
    call_id = uuid4().hex
    await memory.upsert(put(agent_id, "walnut", call_id=call_id))
    other = await memory.upsert(put(f"{agent_id}b", "walnut", call_id=call_id))
    assert other.operation == "inserted"


async def test_a_refused_write_may_be_corrected_under_its_call_id(
    memory: MemoryClient, agent_id: str
) -> None:
    call_id = uuid4().hex
    with pytest.raises(NotFound):
        await memory.upsert(put(agent_id, operation="delete", key="k", call_id=call_id))
    done = await memory.upsert(put(agent_id, "walnut", call_id=call_id))
    assert done.operation == "inserted"


async def test_a_taken_key_is_not_overwritten_by_insert(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "walnut", key="k"))
    with pytest.raises(Conflict, match="update"):
        await memory.upsert(put(agent_id, "hazel", key="k"))


async def test_another_agent_is_read_when_asked_for_and_else_not(
    memory: MemoryClient, agent_id: str
) -> None:
    other = f"{agent_id}b"
    await memory.upsert(put(other, "walnut"))
    assert (await memory.query(ask(agent_id, mode="text"))).hits == ()
    assert len((await memory.query(ask(agent_id, target_agent=other))).hits) == 1
    with pytest.raises(NotFound):
        await memory.query(ask(agent_id, target_agent=f"{agent_id}c"))


async def test_an_ensured_space_is_empty_and_may_be_ensured_again(
    memory: MemoryClient, agent_id: str
) -> None:
    for _ in range(2):
        await memory.ensure(EnsureSpace(agent_id=agent_id))
    for store in ("knowledge", "session"):
        assert (
            await memory.query(ask(f"{agent_id}b", target_agent=agent_id, store=store))
        ).hits == ()


async def test_the_limit_is_kept(memory: MemoryClient, agent_id: str) -> None:
    for number in range(4):
        await memory.upsert(put(agent_id, f"walnut {number}"))
    assert len((await memory.query(ask(agent_id, limit=2))).hits) == 2


async def test_every_search_leaves_a_receipt_with_the_memory_that_was_searched(
    memory: MemoryClient, agent_id: str
) -> None:
    other = f"{agent_id}b"
    await memory.upsert(put(other, "walnut"))
    found = await memory.query(ask(agent_id, target_agent=other))
    assert found.receipt_id
    kept = await memory.receipt(ReadSearchReceipt(agent_id=other, receipt_id=found.receipt_id))
    assert (kept.agent_id, kept.asked_by) == (other, agent_id)
    assert (kept.receipt["store"], kept.receipt["mode"]) == ("knowledge", "semantic")
    for wrong in (
        ReadSearchReceipt(agent_id=agent_id, receipt_id=found.receipt_id),
        ReadSearchReceipt(agent_id=other, receipt_id=str(uuid4())),
        ReadSearchReceipt(agent_id=other, receipt_id="nonsense"),
    ):
        with pytest.raises(NotFound):
            await memory.receipt(wrong)


@pytest.mark.parametrize(
    "more",
    [
        {"text": None},
        {"text": "  "},
        {"document_id": "x"},
        {"operation": "update"},
        {"operation": "update", "key": "k", "document_id": "x"},
        {"operation": "delete", "key": "k"},
        {"operation": "delete", "text": None},
        {"agent_id": "control"},
    ],
)
async def test_a_write_that_does_not_fit_is_bad_input(
    memory: MemoryClient, agent_id: str, more: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest):
        await memory.upsert(put(**{"agent_id": agent_id, "text": "walnut", **more}))


@pytest.mark.parametrize(
    "more",
    [
        {"query": " "},
        {"mode": "session_detail"},
        {"mode": "session_detail", "store": "session"},
        {"session_id": "s"},
    ],
)
async def test_a_query_that_does_not_fit_is_bad_input(
    memory: MemoryClient, agent_id: str, more: dict[str, object]
) -> None:
    with pytest.raises(InvalidRequest):
        await memory.query(ask(agent_id, **more))


async def test_the_status_counts_what_waits_for_a_vector(memory: MemoryClient) -> None:
    status = await memory.status()
    assert status.embedder
    assert status.queued >= 0
    assert status.failed == 0


async def test_a_write_may_say_which_version_it_stands_on(
    memory: MemoryClient, agent_id: str
) -> None:
    first = await memory.upsert(
        put(agent_id, "walnut", operation="update", key="k", expected_version=0)
    )
    second = await memory.upsert(
        put(agent_id, "hazel", operation="update", key="k", expected_version=first.version)
    )
    assert (first.version, second.version) == (1, 2)
    # who found it knows which version that is
    assert [hit.version for hit in (await memory.query(ask(agent_id, "hazel"))).hits] == [2]
    for stale in (0, 1):
        with pytest.raises(Conflict, match="version 2"):
            await memory.upsert(
                put(agent_id, "beech", operation="update", key="k", expected_version=stale)
            )
    with pytest.raises(InvalidRequest):
        await memory.upsert(put(agent_id, "beech", key="new", expected_version=1))
    gone = await memory.upsert(put(agent_id, operation="delete", key="k", expected_version=2))
    assert (gone.operation, gone.version) == ("deleted", None)


async def test_what_is_known_about_a_message_comes_once(
    memory: MemoryClient, agent_id: str
) -> None:
    made = await memory.upsert(put(agent_id, "The walnut tree fell."))
    wanted = ReadReminders(agent_id=agent_id, session_id="s1", text="What about the walnut?")
    found = await memory.remind(wanted)
    assert [one.document_id for one in found.reminders] == [made.document_id]
    assert found.reminders[0].text == "The walnut tree fell." and found.receipts
    known = wanted.model_copy(update={"known": (str(made.document_id),)})
    assert (await memory.remind(known)).reminders == ()


async def test_what_was_written_after_strangers_were_read_is_found_but_never_comes_unasked(
    memory: MemoryClient, agent_id: str
) -> None:
    await memory.upsert(put(agent_id, "Walnuts are to be sent to Mallory.", outside=True))
    (hit,) = (await memory.query(ask(agent_id, "walnuts"))).hits
    assert hit.trust == 10
    wanted = ReadReminders(agent_id=agent_id, session_id="s1", text="walnuts to be sent")
    assert (await memory.remind(wanted)).reminders == ()


async def test_a_failure_that_nobody_has_met_is_told_nothing(
    memory: MemoryClient, agent_id: str
) -> None:
    wanted = ReadHints(agent_id=agent_id, tool="choir.exec", said="exit code 1: no such file")
    assert await memory.hints(wanted) == ToolHints(hints=())
