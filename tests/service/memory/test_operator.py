"""An operator looks at a memory, changes it, carries it away and brings it back; all of it is audited."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from choir_common.bus import subjects
from choir_common.clock import SystemClock
from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.wire.memory_operator import (
    AuditQuery,
    DeleteDocument,
    ListMemory,
    ReadMemoryState,
    ShowDocument,
)
from choir_common.wire.memory_records import KnowledgeRecord, LinkRecord, SessionRecord
from choir_common.wire.memory_search import MemoryQuery, MemoryUpsert
from choir_common.wire.memory_sessions import RecordUnits, SessionUnit
from choir_memory.audit.store import AuditStore
from choir_memory.endpoints import AgentEndpoints
from choir_memory.reminders.service import ReminderService
from choir_memory.sessions.recorder import UnitRecorder
from choir_memory.tool_errors.service import ToolErrorService
from tests.service.memory.conftest import Room
from tests.service.memory.folder_services import make_folder_services
from tests.service.memory.operators import Operator, audited, make_operator


@pytest.fixture
def operator(room: Room) -> Operator:
    return make_operator(room)


async def live(room: Room, session_id: str = "ses_1", agent_id: str = "main") -> list[str]:
    """Have an agent live through a session of three turns; return the ids of its units."""
    begin = await room.database.fetchval("SELECT now()")
    units = tuple(
        SessionUnit(id=f"u{number}", text=text, at=begin, position=number, speaker="Ann")
        for number, text in enumerate(("I sowed beans.", "Water them.", "They grew."))
    )
    recorder = UnitRecorder(room.database, room.spaces, room.queue)
    asked = RecordUnits(agent_id=agent_id, session_id=session_id, units=units)
    return list((await recorder.record(asked)).document_ids)


async def list_texts(operator: Operator, **more: object) -> list[str]:
    found = await operator.reader.list(ListMemory(agent_id="main", **more))
    return [one.text for one in found.items]


async def test_documents_are_listed_newest_first_page_by_page(
    room: Room, operator: Operator
) -> None:
    for number in range(5):
        await room.put(f"text {number}", key=f"k.{number}")
    first = await operator.reader.list(ListMemory(agent_id="main", limit=3))
    second = await operator.reader.list(ListMemory(agent_id="main", limit=3, cursor=first.next))
    assert [one.text for one in (*first.items, *second.items)] == [
        f"text {number}" for number in (4, 3, 2, 1, 0)
    ]
    assert second.next is None
    assert await list_texts(operator, key_prefix="k.3") == ["text 3"]
    with pytest.raises(InvalidRequest, match="cursor"):
        await operator.reader.list(ListMemory(agent_id="main", cursor="yesterday|1"))


async def test_hidden_documents_are_listed_when_asked_for(room: Room, operator: Operator) -> None:
    for text in ("plain", "retired", "expired"):
        await room.put(text)
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET status = 'retired', retired_at = now() "
        "WHERE text = 'retired'"
    )
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET expires_at = now() WHERE text = 'expired'"
    )
    assert await list_texts(operator) == ["plain"]
    found = await operator.reader.list(ListMemory(agent_id="main", hidden=True))
    assert {one.text: one.status for one in found.items} == {
        "plain": "active",
        "retired": "retired",
        "expired": "expired",
    }


async def test_units_of_a_session_are_listed_and_shown(room: Room, operator: Operator) -> None:
    ids = await live(room)
    await live(room, "ses_2")
    assert len(await list_texts(operator, store="session", session_id="ses_1")) == 3
    shown = await operator.reader.show(ShowDocument(agent_id="main", name=ids[0]))
    assert isinstance(shown.record, SessionRecord)
    assert (shown.record.text, shown.record.speaker) == ("I sowed beans.", "Ann")
    with pytest.raises(InvalidRequest, match="store `session` has session_id"):
        await list_texts(operator, session_id="ses_1")


async def test_a_document_is_shown_by_key_or_id_with_its_links(
    room: Room, operator: Operator
) -> None:
    source, derived = await room.put("He said so.", key="a/b"), await room.put("It is so.")
    sql = "INSERT INTO choir_main.links (from_id, kind, to_id) VALUES ($1::uuid, 'evidence', $2::uuid)"
    await room.database.execute(sql, str(derived.document_id), str(source.document_id))
    shown = await operator.reader.show(ShowDocument(agent_id="main", name="a/b"))
    assert isinstance(shown.record, KnowledgeRecord) and shown.record.id == source.document_id
    assert [(one.kind, one.direction, one.text) for one in shown.links] == [
        ("evidence", "to", "It is so.")
    ]
    with pytest.raises(NotFound, match="nothing"):
        await operator.reader.show(ShowDocument(agent_id="main", name="nothing"))
    with pytest.raises(NotFound, match="nobody"):
        await operator.reader.show(ShowDocument(agent_id="nobody", name="a/b"))


async def test_what_an_operator_writes_is_trusted_further_than_the_agent(
    room: Room, operator: Operator
) -> None:
    write = MemoryUpsert(
        agent_id="main", call_id="op-1", operation="update", key="rule", text="Ask first."
    )
    assert (await operator.writer.put(write)).version == 1
    await room.put("Ask first.", operation="update", key="rule")
    shown = await operator.reader.show(ShowDocument(agent_id="main", name="rule"))
    assert isinstance(shown.record, KnowledgeRecord)
    assert (shown.record.origin, shown.record.trust, shown.record.version) == ("operator", 90, 1)
    await room.put("Never ask.", operation="update", key="rule")
    shown = await operator.reader.show(ShowDocument(agent_id="main", name="rule"))
    assert isinstance(shown.record, KnowledgeRecord)
    assert (shown.record.origin, shown.record.trust) == ("agent", 50)


async def test_an_operator_deletes_documents_of_either_store(
    room: Room, operator: Operator
) -> None:
    ids = await live(room)
    made = await room.put("a note", key="n")
    with pytest.raises(Conflict, match="version 1"):
        await operator.writer.delete(DeleteDocument(agent_id="main", name="n", expected_version=4))
    for name in (ids[0], "n"):
        gone = await operator.writer.delete(DeleteDocument(agent_id="main", name=name))
        assert (gone.documents, gone.derived) == (1, 0)
        with pytest.raises(NotFound):
            await operator.writer.delete(DeleteDocument(agent_id="main", name=name))
    assert await list_texts(operator) == []
    assert len(await list_texts(operator, store="session")) == 2
    deletions = [one for one in await audited(room) if one[1] == "deleted"]
    assert [(who, ids) for who, _, ids, _ in deletions] == [
        ("operator", {ids[0]}),
        ("operator", {made.document_id}),
    ]


async def test_the_state_counts_what_there_is_and_what_waits(
    room: Room, operator: Operator
) -> None:
    await live(room)
    await room.put("a note")
    state = await operator.reader.state(ReadMemoryState(agent_id="main"))
    counts = {(one.store, one.kind, one.tier): one for one in state.counts}
    assert counts["knowledge", "note", None].documents == 1
    assert counts["session", "turn", "mid_term"].without_vector == 3
    assert state.queued == 4 and state.bytes > 0 and state.unfinished_imports == ()


async def test_an_import_brings_back_every_column_of_an_export(
    room: Room, operator: Operator
) -> None:
    await live(room)
    made, other = await room.put("a note", key="n", metadata={"tags": ["x"]}), await room.put("b")
    await room.database.execute(
        "UPDATE choir_main.knowledge_documents SET kind = 'fact', subject = 'Ann', seen_count = 4, "
        "valid_from = now() - interval '1 year', evidence = 'she said', trust = 12 WHERE key = 'n'"
    )
    today = datetime.now(UTC)
    life = {"valid_from": today, "valid_to": today + timedelta(days=9), "supersedes": ("n",)}
    await room.put("a note of today", **life)
    sql = "INSERT INTO choir_main.links (from_id, kind, to_id) VALUES ($1::uuid, 'mentions', $2::uuid)"
    await room.database.execute(sql, str(made.document_id), str(other.document_id))
    given = await operator.export()
    assert {type(one) for one in given} >= {SessionRecord, KnowledgeRecord, LinkRecord}
    assert {one.status for one in given if isinstance(one, KnowledgeRecord)} >= {"retired"}
    assert {one.kind for one in given if isinstance(one, LinkRecord)} >= {"supersedes"}
    done = await operator.import_records(given, "twin", size=2)
    assert sum(one.written for one in done) == len(given)
    assert [one.finished for one in done] == [*[False] * (len(done) - 1), True]
    again = await operator.import_records(given, "twin")
    assert [(one.written, one.unchanged, one.refused) for one in again] == [(0, len(given), ())]
    own = await operator.import_records(given, "main")
    assert [(one.written, one.unchanged, one.refused) for one in own] == [(0, len(given), ())]
    differ = [a for a, b in zip(given, await operator.export("twin"), strict=True) if a != b]
    # a session that was carried has ended
    assert {one.type for one in differ} <= {"passed_session"}


async def test_an_import_leaves_alone_what_says_otherwise_and_tells_of_it(
    room: Room, operator: Operator
) -> None:
    made = await room.put("first", key="k")
    given = await operator.export()
    await room.put("second", operation="update", key="k")
    taken = given[0].model_copy(update={"id": str(uuid4())})
    (done,) = await operator.import_records([*given, taken], "main")
    assert (done.written, set(done.refused)) == (0, {made.document_id, taken.id})
    assert await list_texts(operator) == ["second"]


async def test_an_import_that_was_cut_is_told_until_it_is_gone_on_with(
    room: Room, operator: Operator
) -> None:
    for number in range(4):
        await room.put(f"text {number}")
    given = await operator.export()
    broken = [*given[:2], given[2].model_copy(update={"kind": "no such kind"}), given[3]]
    with pytest.raises(InvalidRequest, match="Nothing of this piece"):
        await operator.import_records(broken, "twin", size=2, name="one")
    state = await operator.reader.state(ReadMemoryState(agent_id="twin"))
    (left,) = state.unfinished_imports
    assert (left.import_id, left.done, left.total) == ("one", 2, 4)
    assert sum(one.documents for one in state.counts) == 2
    done = await operator.import_records(given, "twin", size=2, name="one")
    assert [(one.written, one.unchanged) for one in done] == [(0, 2), (2, 0)]
    state = await operator.reader.state(ReadMemoryState(agent_id="twin"))
    assert state.unfinished_imports == () and state.queued == 4


async def test_an_erased_session_is_not_brought_back(room: Room, operator: Operator) -> None:
    await live(room)
    given = await operator.export()
    await room.database.execute("UPDATE choir_memory.sessions SET erased_at = now()")
    await room.database.execute("DELETE FROM choir_main.memory_documents")
    (done,) = await operator.import_records(given, "main")
    assert done.written == 0 and len(done.refused) == len(given)


async def test_every_look_of_an_operator_stands_in_the_audit(
    room: Room, operator: Operator
) -> None:
    made = await room.put("beans", key="k")
    await list_texts(operator)
    await operator.reader.show(ShowDocument(agent_id="main", name="k"))
    query = MemoryQuery(agent_id="main", store="knowledge", mode="text", query="beans")
    assert (await operator.reader.search(query)).hits
    await operator.export()
    seen = [(who, what, ids) for who, what, ids, _ in await audited(room) if who == "operator"]
    mine = {str(made.document_id)}
    assert seen == [
        ("operator", "list", mine),
        ("operator", "show", mine),
        ("operator", "search", mine),
        ("operator", "export", set()),
    ]
    page = await operator.reader.audit(AuditQuery(agent_id="main", limit=2))
    assert [one.operation for one in page.items] == ["export", "search"]
    older = AuditQuery(agent_id="main", before=page.items[-1].number)
    assert [one.operation for one in (await operator.reader.audit(older)).items] == [
        "show",
        "list",
        "inserted",
    ]


async def test_a_read_of_anothers_memory_stands_in_the_audit_of_that_memory(
    room: Room, tmp_path: Path
) -> None:
    ids = await live(room)
    await room.spaces.ensure("curious")
    endpoints = AgentEndpoints(
        spaces=room.spaces,
        knowledge=room.knowledge,
        search=room.recall,
        reminders=ReminderService(
            database=room.database, spaces=room.spaces, search=room.recall, clock=SystemClock()
        ),
        tool_errors=ToolErrorService(room.database, room.spaces, SystemClock()),
        queue=room.queue,
        embedders=room.embedders,
        audit=AuditStore(room.database),
        folders=make_folder_services(room, tmp_path).folders,
    )
    handlers = {each.subject: each.handler for each in endpoints.table()}
    ask = handlers[subjects.query_memory()]
    query = MemoryQuery(
        agent_id="curious",
        target_agent="main",
        store="session",
        mode="text",
        query="sowed",
        context=True,
    )
    assert (await ask(query)).hits
    ((who, what, read, _),) = await audited(room)
    # with what was shown beside it
    assert (who, what) == ("agent:curious", "read") and {ids[0], ids[1]} <= read <= set(ids)
    assert await audited(room, "curious") == []


async def test_every_column_that_cannot_be_made_again_is_carried(room: Room) -> None:
    await room.put("x")
    for table, shape in (("memory", SessionRecord), ("knowledge", KnowledgeRecord)):
        rows = await room.database.fetch(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'choir_main' AND table_name = $1",
            f"{table}_documents",
        )
        columns = {row["column_name"] for row in rows} - {"tsv", "tokens", "asking"}
        assert columns == shape.model_fields.keys() - {"type"}
