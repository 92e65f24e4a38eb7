"""An agent's role reaches its own schema and nothing else: in the service and in psql alike."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from choir_common.errors import Conflict, InvalidRequest
from choir_common.postgres.pool import Database
from choir_memory.schema.store import SpaceStore, admin_read_transaction, agent_transaction
from tests.service.memory.conftest import Room
from tests.support.postgres import PASSWORD

TABLES = (
    "memory_documents",
    "memory_embeddings",
    "knowledge_documents",
    "knowledge_embeddings",
    "operations",
    "links",
    "words",
)
FOREIGN = [
    *(f"SELECT * FROM choir_other.{table}" for table in TABLES),
    *(f"DELETE FROM choir_other.{table}" for table in TABLES),
    "INSERT INTO choir_other.operations (call_id, digest) VALUES ('a', 'b')",
    "UPDATE choir_other.knowledge_documents SET text = 'mine'",
    "SELECT * FROM choir_memory.embedding_queue",
    "INSERT INTO choir_memory.spaces (agent_id) VALUES ('x')",
    "SELECT * FROM choir_memory.space_changes",
    "SELECT choir_other.changed_since('session', pg_current_snapshot())",
    "SELECT * FROM choir_control.session_events",
    "SELECT * FROM choir_main.migrations",
    "CREATE TABLE choir_main.mine (x int)",
    "CREATE TABLE public.mine (x int)",
    "CREATE SCHEMA mine",
    "DROP TABLE choir_main.operations",
    "ALTER TABLE choir_main.operations ADD COLUMN x int",
    "CREATE ROLE friend",
    "SET ROLE choir",
    "SET ROLE choir_other",
    "SELECT pg_read_file('/etc/passwd')",
    "COPY choir_main.operations TO PROGRAM 'true'",
]


@pytest.fixture
async def two_agents(room: Room) -> Room:
    """Two agents with one document each, and a stand-in for control's tables."""
    await room.put("mine")
    await room.put("theirs", agent_id="other")
    await room.database.execute("CREATE SCHEMA choir_control")
    await room.database.execute("CREATE TABLE choir_control.session_events (x int)")
    return room


async def test_agents_whose_ids_differ_by_a_hyphen_have_memories_of_their_own(room: Room) -> None:
    names = ("agent-1", "agent_1", "agent--1", "agent-")
    for name in names:
        await room.put(f"The harbour of {name} is blue.", agent_id=name, key="harbour")
    for name in names:
        hits = (await room.ask("harbour", agent_id=name)).hits
        assert [hit.text for hit in hits] == [f"The harbour of {name} is blue."]
    assert await SpaceStore(room.database).list_agents() == sorted(names)
    async with agent_transaction(room.database, "agent-1") as held:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await held.fetch("SELECT * FROM choir_agent_1.knowledge_documents")


@pytest.fixture
async def psql(two_agents: Room, dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection that logged in as the agent's own role, as no agent ever can."""
    database = two_agents.database
    await database.execute("ALTER ROLE choir_main LOGIN PASSWORD 'for-this-test'")
    as_main = dsn.replace("//choir@", "//choir_main@")
    connection = await asyncpg.connect(as_main, password="for-this-test")
    yield connection
    await connection.close()
    await database.execute("ALTER ROLE choir_main NOLOGIN PASSWORD NULL")


async def test_a_login_as_the_agents_role_is_refused_everything_else(
    psql: asyncpg.Connection,
) -> None:
    done = []
    for statement in FOREIGN:
        try:
            await psql.execute(statement)
            done.append(statement)
        except asyncpg.InsufficientPrivilegeError:
            continue
    assert done == []


async def test_a_login_as_the_agents_role_reads_and_writes_its_own(
    psql: asyncpg.Connection,
) -> None:
    assert await psql.fetchval("SELECT text FROM choir_main.knowledge_documents") == "mine"
    await psql.execute("DELETE FROM choir_main.knowledge_documents")


async def test_a_transaction_under_the_agents_role_is_refused_everything_else(
    two_agents: Room,
) -> None:
    done = []
    # a transaction can change its role back: the service's own statements never hold foreign text
    for statement in (one for one in FOREIGN if not one.startswith("SET ROLE")):
        try:
            async with agent_transaction(two_agents.database, "main") as held:
                await held.execute(statement)
            done.append(statement)
        except asyncpg.InsufficientPrivilegeError:
            continue
    assert done == []


async def test_the_admin_path_reads_everything_and_writes_nothing(two_agents: Room) -> None:
    async with admin_read_transaction(two_agents.database) as held:
        sql = "SELECT text FROM choir_other.knowledge_documents"
        assert await held.fetchval(sql) == "theirs"
    with pytest.raises(Exception, match="read-only"):
        async with admin_read_transaction(two_agents.database) as held:
            await held.execute("DELETE FROM choir_other.knowledge_documents")


async def test_the_role_ends_with_its_transaction(two_agents: Room, dsn: str) -> None:
    async with Database(dsn, PASSWORD, size=1, application="one") as single:
        async with agent_transaction(single, "main") as held:
            assert await held.fetchval("SELECT current_user") == "choir_main"
        assert await single.fetchval("SELECT current_user") == "choir"
        assert await single.fetchval("SHOW search_path") == '"$user", public'


async def test_agents_of_one_pool_never_see_each_others_rows(room: Room) -> None:
    names = [f"agent_{number}" for number in range(6)]
    for name in names:
        await room.put(f"the word of {name}", agent_id=name, key="word")
    for _ in range(3):
        for name in names:
            hits = (await room.ask("word", agent_id=name, mode="text")).hits
            assert [hit.text for hit in hits] == [f"the word of {name}"]


@pytest.mark.parametrize(
    "agent_id",
    ["control", "memory", "Main", "a.b", "", "1a", 'a"; DROP SCHEMA public; --', "a" * 42, "ä"],
)
async def test_a_name_that_cannot_be_an_agents_makes_nothing(room: Room, agent_id: str) -> None:
    with pytest.raises(InvalidRequest):
        await room.spaces.ensure(agent_id)
    assert await room.database.fetchval("SELECT count(*) FROM choir_memory.spaces") == 0


async def test_a_role_that_may_log_in_is_not_taken_for_an_agents(room: Room) -> None:
    await room.database.execute("CREATE ROLE choir_powerful LOGIN")
    try:
        with pytest.raises(Conflict, match="choir_powerful"):
            await room.spaces.ensure("powerful")
    finally:
        await room.database.execute("DROP ROLE choir_powerful")


async def test_a_space_is_made_once_however_many_replicas_make_it(room: Room, dsn: str) -> None:
    async with Database(dsn, PASSWORD, size=2, application="replica") as second:
        mine, theirs = SpaceStore(room.database), SpaceStore(second)
        await asyncio.gather(mine.create("many"), theirs.create("many"), mine.create("many"))
    assert await room.database.fetchval("SELECT count(*) FROM choir_memory.spaces") == 1
