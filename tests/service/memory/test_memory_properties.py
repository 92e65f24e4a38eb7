"""What holds whatever is remembered: tenancy, erasure without a trace, and exports that find the same."""

import asyncio
import subprocess
from pathlib import Path
from uuid import UUID, uuid4

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from choir_common.wire.memory_operator import DeleteDocument
from choir_common.wire.memory_search import MemoryHits
from choir_local.postgres_binaries import find_postgres_binaries
from choir_memory.schema.store import agent_transaction
from tests.service.memory.conftest import Room
from tests.service.memory.operators import make_operator
from tests.service.memory.servers import until
from tests.support.postgres import PASSWORD

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "豆子", "陽光", "月亮")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
MODES = st.sampled_from(["semantic", "text"])
few = settings(
    max_examples=6,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def fresh(number: int = 1) -> list[str]:
    """Return names of agents that no other example uses."""
    return [f"a{uuid4().hex[:12]}" for _ in range(number)]


async def embed_all(room: Room) -> None:
    """Give every document its vectors."""

    async def done() -> bool:
        sql = "SELECT count(*) FROM choir_memory.embedding_queue"
        return bool(await room.database.fetchval(sql) == 0)

    working = asyncio.create_task(room.queue.run())
    try:
        await until(done, 60)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def found(hits: MemoryHits) -> list[tuple[str, float]]:
    return [(hit.document_id, hit.score) for hit in hits.hits]


@few
@given(
    texts=st.lists(st.lists(TEXTS, min_size=1, max_size=3), min_size=3, max_size=3),
    query=TEXTS,
    mode=MODES,
)
async def test_no_query_finds_anothers_document_unless_it_asks_for_them(
    room: Room, texts: list[list[str]], query: str, mode: str
) -> None:
    agents = fresh(3)
    owned = {
        agent: {(await room.put(text, agent_id=agent)).document_id for text in mine}
        for agent, mine in zip(agents, texts, strict=True)
    }
    await embed_all(room)
    for asker in agents:
        own = {hit.document_id for hit in (await room.ask(query, agent_id=asker, mode=mode)).hits}
        assert own <= owned[asker]
        for target in agents:
            hits = await room.ask(query, agent_id=asker, target_agent=target, mode=mode)
            assert {hit.document_id for hit in hits.hits} <= owned[target]
        # the database says no as well, to a statement the service would never make
        other = next(agent for agent in agents if agent != asker)
        for statement in ("SELECT text FROM", "DELETE FROM"):
            with pytest.raises(Exception, match="permission denied"):
                async with agent_transaction(room.database, asker) as held:
                    await held.execute(f"{statement} choir_{other}.knowledge_documents")


async def dump(room: Room) -> bytes:
    """Return a pg_dump of the whole database."""
    binaries = await asyncio.to_thread(find_postgres_binaries, None, None)
    program = Path(binaries.program("pg_dump"))
    done = await asyncio.to_thread(
        subprocess.run,
        [str(program), "--dbname", room.dsn],
        env={"PGPASSWORD": PASSWORD},
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_an_erased_document_leaves_no_trace_in_the_database(room: Room) -> None:
    operator = make_operator(room)
    derived, kept = await room.put("walnutsigh derived"), await room.put("cedarstay kept")
    made = await room.put("walnutsigh herself", key="keysigh.one", metadata={"of": "metasigh"})
    sql = "INSERT INTO choir_main.links (from_id, kind, to_id) VALUES ($1, 'evidence', $2)"
    ids = [UUID(str(one.document_id)) for one in (derived, made)]
    await room.database.execute(sql, *ids)
    assert (await room.ask("walnutsigh")).hits
    await embed_all(room)
    traces = (b"walnutsigh", b"keysigh", b"metasigh")
    before = await dump(room)
    assert all(trace in before for trace in (*traces, b"cedarstay"))

    await room.put(None, operation="delete", key="keysigh.one")

    after = await dump(room)
    assert not [trace for trace in traces if trace in after] and b"cedarstay" in after
    assert (await room.ask("walnutsigh", mode="text")).hits == ()
    deleted = DeleteDocument(agent_id="main", name=str(kept.document_id))
    assert (await operator.writer.delete(deleted)).documents == 1
    assert b"cedarstay" not in await dump(room)


@few
@given(
    texts=st.lists(TEXTS, min_size=1, max_size=8, unique=True),
    queries=st.lists(st.tuples(TEXTS, MODES), min_size=1, max_size=3),
)
async def test_an_export_brought_into_a_new_agent_finds_the_same(
    room: Room, texts: list[str], queries: list[tuple[str, str]]
) -> None:
    source, twin = fresh(2)
    operator = make_operator(room)
    for number, text in enumerate(texts):
        await room.put(text, agent_id=source, key=f"k{number}", metadata={"n": number})
    await embed_all(room)
    records = await operator.export(source)
    lines = [orjson.loads(record.model_dump_json()) for record in records]
    assert all(line["type"] == "knowledge" for line in lines) and len(lines) == len(texts)
    await operator.import_records(records, twin, size=3)
    await embed_all(room)
    for query, mode in queries:
        here = await room.ask(query, agent_id=source, mode=mode)
        there = await room.ask(query, agent_id=twin, mode=mode)
        assert [one[0] for one in found(here)] == [one[0] for one in found(there)]
        assert [one[1] for one in found(here)] == pytest.approx([one[1] for one in found(there)])
