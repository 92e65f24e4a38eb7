"""S6: one agent at another's things, through every verb of its door and as its role in the database.

`main` is the attacker with a good lease; all else belongs to `never`, which has a workspace, a DM and a
session of its own. A verb or a table that is added later is tried, or the list here fails.
"""

import asyncio
from typing import Any

import asyncpg
import pytest

from choir_common.wire.events import ApprovalDecided, Cancelled, Reply, UserMessageStarted
from choir_common.wire.rpc import VERBS
from choir_memory.embedding.model_store import register_model
from choir_memory.schema.store import SpaceStore
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import MODEL_KEY, World
from tests.support.load import sample_event
from tests.support.postgres import PASSWORD

OWNED = ("sessions", "session_epochs", "session_events", "leases", "pending_approvals", "signals")


@pytest.fixture
async def attacker(world: World) -> AgentHand:
    hand = await world.agent()
    await hand.begin()
    return hand


@pytest.fixture
async def victim(world: World, attacker: AgentHand) -> AgentHand:
    """Another agent, with an open approval and a message that waits for it."""
    started = await world.post("/v1/agents/never/start", json={"dm": "second"})
    assert started.status_code < 300, started.text
    hand = await world.agent(starts=2)
    await hand.begin()
    asked = b'{"request_type":"call","call_id":"c1","payload":{"tool":"x","input":{}}}'
    assert (await hand.post("REQUEST_APPROVAL", asked)).status_code == 200
    await world.say("for never alone", "u1", dm="second")
    return hand


UNDELIVERED = (
    "SELECT count(*) FROM choir_control.outbox WHERE dm = 'second' AND finished_at IS NULL"
)


async def belongings(world: World, victim: AgentHand) -> dict[str, Any]:
    """Return all that is stored of the victim, but for what passing time alone changes."""
    found: dict[str, Any] = {}
    # the gateway may still be at work on a notice
    async with asyncio.timeout(30):
        while await world.database.fetchval(UNDELIVERED):
            await asyncio.sleep(0.02)
    for table in OWNED:
        rows = await world.database.fetch(
            f"SELECT to_jsonb(t) - 'last_heartbeat_at' - 'waited' AS row FROM choir_control.{table} AS t "
            "WHERE to_jsonb(t) ->> 'session_id' = $1 OR to_jsonb(t) ->> 'dm' = 'second' ORDER BY 1",
            victim.spec.session_id,
        )
        found[table] = [row["row"] for row in rows]
    for table in ("inbox", "outbox"):
        sql = f"SELECT to_jsonb(t) AS row FROM choir_control.{table} AS t WHERE dm = 'second'"
        found[table] = [row["row"] for row in await world.database.fetch(sql)]
    assert found["sessions"] and found["pending_approvals"] and found["inbox"]
    return found


def bodies(verb: str, attacker: AgentHand, victim: AgentHand) -> list[bytes]:
    """Return what the attacker may send under the victim's session: bodies that its owner may send."""
    match verb:
        case "INIT_HELLO":
            return [victim.hello_body(), attacker.hello_body()]
        case "HEARTBEAT":
            forged = victim.heartbeat([])
            return [forged.model_dump_json().encode()]
        case "GET_SECRETS":
            return [b'{"resources":["key"]}']
        case "REQUEST_APPROVAL":
            return [b'{"request_type":"call","call_id":"c2","payload":{"tool":"x","input":{}}}']
        case "REPORT_STATUS":
            return [b'{"lane":"edge","state":"mine now"}']
        case "TERMINATE_SELF":
            return [b'{"reason":"by another"}']
        case "FETCH_DYNAMIC_CONFIG":
            return [b'{"current_config_version":0}']
        case "EXECUTE_HOST_TOOL":
            return [b'{"tool_name":"choir.memory.query","call_id":"c","input":{"query":"x"}}']
    raise AssertionError(f"{verb} is new: say here what an agent could send in another's name")


async def test_no_verb_is_answered_in_the_name_of_another_session(
    world: World, attacker: AgentHand, victim: AgentHand
) -> None:
    before = await belongings(world, victim)
    headers = {**attacker.headers, "X-Choir-Session-Id": victim.spec.session_id}
    # over the own socket, over the victim's own, and over the port
    for hand in (attacker, victim, world.hand(attacker.spec, world.tcp)):
        for verb in VERBS:
            for body in bodies(verb, attacker, victim):
                answer = await hand.client.post(f"/rpc/{verb}", content=body, headers=headers)
                assert answer.status_code == 401, (verb, answer.text)
                assert MODEL_KEY not in answer.text
    assert await belongings(world, victim) == before


async def test_no_signal_stream_is_opened_in_the_name_of_another_session(
    world: World, attacker: AgentHand, victim: AgentHand
) -> None:
    headers = {**attacker.headers, "X-Choir-Session-Id": victim.spec.session_id}
    answer = await attacker.client.get("/events", headers=headers)
    assert answer.status_code == 401 and "for never alone" not in answer.text


async def test_a_body_that_names_another_agent_or_session_is_refused(
    world: World, attacker: AgentHand, victim: AgentHand
) -> None:
    before = await belongings(world, victim)
    hello = await attacker.post("INIT_HELLO", victim.hello_body())
    assert hello.status_code == 409
    own = attacker.heartbeat([])
    for forged in (
        own.model_copy(update={"agent_id": "never"}),
        victim.heartbeat([]),
        victim.heartbeat([victim.add(sample_event())]),
    ):
        answer = await attacker.post("HEARTBEAT", forged.model_dump_json().encode())
        assert answer.status_code in (400, 409), answer.text
    assert await belongings(world, victim) == before


async def test_events_about_anothers_things_change_only_the_own_log(
    world: World, attacker: AgentHand, victim: AgentHand
) -> None:
    before = await belongings(world, victim)
    inbox_id = before["inbox"][0].split('"inbox_id": "')[1].split('"')[0]
    approval = await world.database.fetchval(
        "SELECT approval_id FROM choir_control.pending_approvals WHERE session_id = $1",
        victim.spec.session_id,
    )
    seqs = await world.database.fetch("SELECT seq FROM choir_control.signals")
    attacker.add(UserMessageStarted(turn_id="t", inbox_id=inbox_id, dm="second", text="mine"))
    attacker.say("answered for them", answers=inbox_id)
    attacker.add(ApprovalDecided(approval_id=approval, status="approved", what="x", dm="console"))
    for row in seqs:
        attacker.add(Cancelled(target="turn", turn_id=None, by="user", signal=row["seq"]))
    await attacker.flush()
    assert await belongings(world, victim) == before


async def test_words_to_anothers_conversation_are_refused(
    world: World, attacker: AgentHand, victim: AgentHand
) -> None:
    before = await belongings(world, victim)
    attacker.add(Reply(turn_id="t", dm="second", text="as never", kind="answer", answers=None))
    answer = await attacker.post("HEARTBEAT", attacker.heartbeat())
    assert answer.status_code == 400
    assert await belongings(world, victim) == before
    assert "as never" not in world.gateway.texts


async def test_no_secret_of_another_binding_is_handed_out(
    world: World, attacker: AgentHand, victim: AgentHand
) -> None:
    for name in ("tg", "operator-token", "postgres-admin", "nats-key-control"):
        answer = await attacker.post("GET_SECRETS", f'{{"resources":["{name}"]}}'.encode())
        assert "bot-token-of-the-test" not in answer.text and PASSWORD not in answer.text


async def test_an_agents_role_reaches_no_table_but_its_own(
    world: World, attacker: AgentHand, dsn: str
) -> None:
    """Every table there is, also those that are added later, by every way to read or write it."""
    spaces = SpaceStore(world.database)
    await spaces.migrate_shared_schema()
    await register_model(world.database, "model", 3, "test")
    for name in ("main", "never"):
        await spaces.create(name)
    tables = await world.database.fetch(
        "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables "
        "WHERE schemaname LIKE 'choir%' AND schemaname <> 'choir_main'"
    )
    assert len(tables) > 15
    await world.database.execute("ALTER ROLE choir_main LOGIN PASSWORD 'for-this-test'")
    held = await asyncpg.connect(dsn.replace("//choir@", "//choir_main@"), password="for-this-test")
    try:
        done = [
            statement
            for row in tables
            for statement in (
                f"SELECT * FROM {row['name']}",
                f"DELETE FROM {row['name']}",
                f"TRUNCATE {row['name']} CASCADE",
                f"INSERT INTO {row['name']} DEFAULT VALUES",
                f"COPY {row['name']} TO STDOUT",
            )
            if not await refused(held, statement)
        ]
    finally:
        await held.close()
        await world.database.execute("ALTER ROLE choir_main NOLOGIN PASSWORD NULL")
    assert done == []


async def refused(held: "asyncpg.Connection[asyncpg.Record]", statement: str) -> bool:
    try:
        await held.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return True
    except asyncpg.PostgresError as error:
        raise AssertionError(f"{statement}: {error}") from error
    return False
