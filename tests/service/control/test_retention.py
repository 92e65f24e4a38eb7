"""What is old and done is deleted; the log of an ended session can be erased, and still verifies."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from choir_common.eventlog.chain import LogHead
from choir_common.eventlog.signature import AuditKey, AuditKeyring
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.events import GENESIS
from choir_common.wire.operator import LogVerification
from choir_control.configuration.current import ConfigService
from choir_control.configuration.version_store import ConfigVersionStore
from choir_control.log.audit.anchor_store import AnchorStore
from choir_control.log.audit.verifier import LogVerifier
from choir_control.log.eventlog.store import EventStore
from choir_control.log.retention.job import RetentionJob
from choir_control.log.retention.log_store import ErasedLogStore
from choir_control.log.retention.row_store import KEEP_NEWEST_CONFIGS
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, a_config, until
from tests.support.sessions import LogBuilder, conversation_log

NOW = datetime.now(UTC)
SESSION = """
INSERT INTO choir_control.sessions (session_id, agent_id, status, epoch, head_rev, head_hash, workspace,
    llm, dm, gateway, started_at, ended_at, archived_at)
VALUES ($1, 'main', 'stopped', 1, $2, $3, 'w', 'm', 'console', 'console', $4, $4::timestamptz, $5)
"""
EVENT = """
INSERT INTO choir_control.session_events (session_id, rev, lane, type, payload, at, hash_prev, hash,
    signature)
VALUES ($1, $2, $3, $4, $5::json, $6, $7, $8, $9)
"""
INBOX = """
INSERT INTO choir_control.inbox (inbox_id, gateway, update_id, dm, text, sent_at, received_at, session_id,
    consumed_rev, answered_rev)
VALUES ($1, 'console', $1, 'console', $2, $3, $3, $4, $5, $5)
"""
OUTBOX = """
INSERT INTO choir_control.outbox (dm, gateway, agent_id, session_id, rev, kind, text, at, status, finished_at)
VALUES ('console', 'console', 'main', $1, $2, 'answer', $3, $4, $5, $4) RETURNING outbox_id
"""
OPERATION = """
INSERT INTO choir_control.operations (operation_id, kind, subject, status, began_at, ended_at)
VALUES ($1, 'update', 'main', $2, $3, $4)
"""


@dataclass
class Records:
    """Control's tables, and the job that keeps them small."""

    database: Database
    job: RetentionJob
    events: EventStore
    verifier: LogVerifier
    keyring: AuditKeyring

    async def store(self, script: LogBuilder, age: timedelta, *, archived: bool = True) -> None:
        """Put in an ended session with its messages, as one of `age` ago."""
        ended, last = NOW - age, script.events[-1]
        await self.database.execute(
            SESSION, script.session_id, last.rev, last.hash, ended, ended if archived else None
        )
        for event in script.events:
            payload = orjson.dumps(event.payload).decode()
            chain = (event.at, event.hash_prev, event.hash)
            await self.database.execute(
                EVENT,
                event.session_id,
                event.rev,
                event.lane,
                event.type,
                payload,
                *chain,
                self.keyring.sign_event(event.session_id, event.rev, event.hash),
            )
            if event.type == "user_msg":
                inbox_id = f"{script.session_id}-{event.rev}"
                text = event.payload["text"]
                await self.database.execute(
                    INBOX, inbox_id, text, ended, script.session_id, event.rev
                )
                await self.database.execute(
                    "INSERT INTO choir_control.signals (dm, body, inbox_id, done_at) "
                    "VALUES ('console', json_build_object('text', $1::text), $2, now())",
                    text,
                    inbox_id,
                )
            if event.type == "reply":
                await self.said(event.payload["text"], ended, script.session_id, event.rev)

    async def said(
        self,
        text: object,
        at: datetime,
        session_id: str | None = None,
        rev: int | None = None,
        status: str = "delivered",
    ) -> int:
        return int(await self.database.fetchval(OUTBOX, session_id, rev, text, at, status))

    async def verify(self, script: LogBuilder) -> LogVerification:
        last = script.events[-1]
        return await self.verifier.verify(script.session_id, LogHead(last.rev, last.hash))

    async def holds(self, word: str) -> bool:
        """Tell whether a word stands in any row of any table."""
        tables = await self.database.fetch(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'choir_control' "
            "AND table_name <> 'config_versions'"
        )
        for row in tables:
            sql = f"SELECT EXISTS (SELECT FROM choir_control.{row['table_name']} AS t WHERE t::text LIKE $1)"
            if await self.database.fetchval(sql, f"%{word}%"):
                return True
        return False

    async def column(self, table: str, name: str) -> set[object]:
        rows = await self.database.fetch(f"SELECT {name} FROM choir_control.{table}")
        return {row[name] for row in rows}

    async def count(self, table: str) -> int:
        return int(await self.database.fetchval(f"SELECT count(*) FROM choir_control.{table}"))


async def make_records(
    database: Database, home: Path, log: int | None, retention: dict[str, int | None] | None = None
) -> Records:
    config = a_config(home)
    config["retention"] = retention or {}
    config["agents"]["main"]["retention"] = {"log": log}
    config["models"] = {"default": {"model": "m", "endpoint": "http://127.0.0.1:1/v1"}}
    file = home / "config.json"
    file.write_text(orjson.dumps(config).decode())
    await migrate(database, "choir_control", read_migrations("choir_control.migrations"))
    configuration = ConfigService(file, None, ConfigVersionStore(database))
    await configuration.put_in_force(configuration.read())
    keyring = AuditKeyring([AuditKey(bytes(32))])
    events = EventStore(database, keyring)
    verifier = LogVerifier(events, AnchorStore(database, keyring), keyring)
    job = RetentionJob(database, verifier, configuration, pause_s=0.0)
    return Records(database, job, events, verifier, keyring)


@pytest.fixture
async def records(database: Database, tmp_path: Path) -> AsyncIterator[Records]:
    """Logs are kept for 30 days, all else as long as it is by default."""
    yield await make_records(database, tmp_path, log=30)


async def test_an_old_log_is_erased_with_its_messages_and_still_verifies(records: Records) -> None:
    old = conversation_log("s1", *(f"banana {number}" for number in range(600)))
    young, newest = conversation_log("s2", "cherry"), conversation_log("s3", "damson")
    await records.store(old, timedelta(days=31))
    await records.store(young, timedelta(days=29))
    await records.store(newest, timedelta(days=1))
    assert await records.holds("banana")
    await records.job.sweep()
    assert not await records.holds("banana")
    assert await records.holds("cherry") and await records.holds("damson")
    found = await records.verify(old)
    assert found.ok and found.erased_at is not None
    assert found.events == found.head_rev == old.events[-1].rev == 1_202
    assert (await records.verify(young)).erased_at is None

    await records.database.execute(
        "UPDATE choir_control.erased_logs SET hashes = substring(hashes FOR 32 * 1201)"
    )
    cut = await records.verify(old)
    assert not cut.ok and cut.broken_at == 1_201 and "1201 hashes" in str(cut.reason)
    await records.database.execute(
        "UPDATE choir_control.erased_logs SET hashes = hashes || decode(repeat('00', 32), 'hex')"
    )
    assert not (await records.verify(old)).ok


async def test_an_erasure_that_was_cut_off_goes_on(records: Records) -> None:
    old = conversation_log("s1", *(f"banana {number}" for number in range(40)))
    await records.store(old, timedelta(days=31))
    await records.store(conversation_log("s2", "cherry"), timedelta(days=1))
    logs = ErasedLogStore(records.database)
    await logs.store_hashes("s1")
    await logs.erase_batch("s1", 30)
    assert (await records.verify(old)).ok and await records.holds("banana")
    await records.job.sweep()
    assert (await records.verify(old)).ok and not await records.holds("banana")


@pytest.mark.parametrize("why", ["newest talk", "newest real talk", "not in memory", "broken"])
async def test_a_log_that_is_still_needed_is_not_erased(records: Records, why: str) -> None:
    old = conversation_log("s1", "banana")
    await records.store(old, timedelta(days=300), archived=why != "not in memory")
    # a session in which nobody said anything hands nothing on
    words = () if why == "newest talk" else ("cherry",)
    await records.store(conversation_log("s2", *words), timedelta(days=200))
    if why == "newest real talk":
        # no session with a real model continues a rehearsal
        await records.database.execute(
            "UPDATE choir_control.sessions SET rehearsal = true WHERE session_id = 's2'"
        )
    if why == "broken":
        await records.database.execute(
            'UPDATE choir_control.session_events SET payload = \'{"text": "banana"}\' '
            "WHERE session_id = 's1' AND rev = 3"
        )
    await records.job.sweep()
    assert len(await records.events.read("s1", 0, 100)) == len(old.events)
    assert (await records.verify(old)).ok is (why != "broken")


async def test_a_rehearsal_is_erased_once_memory_has_forgotten_it(records: Records) -> None:
    await records.store(conversation_log("s1", "banana"), timedelta(days=300))
    await records.store(conversation_log("s2", "cherry"), timedelta(days=200))
    await records.database.execute("UPDATE choir_control.sessions SET rehearsal = true")
    await records.job.sweep()
    assert await records.holds("banana")
    await records.database.execute("UPDATE choir_control.sessions SET forgotten_at = now()")
    await records.job.sweep()
    assert not await records.holds("banana") and await records.holds("cherry")


async def test_logs_stay_for_ever_unless_config_says_otherwise(
    database: Database, tmp_path: Path
) -> None:
    records = await make_records(database, tmp_path, log=None)
    old = conversation_log("s1", "banana")
    await records.store(old, timedelta(days=3_000))
    await records.store(conversation_log("s2", "cherry"), timedelta(days=1))
    await records.job.sweep()
    assert len(await records.events.read("s1", 0, 100)) == len(old.events)
    assert await records.count("inbox") == 2, "a message goes once its signal is gone"


async def test_old_messages_and_operations_go_and_what_is_open_stays(records: Records) -> None:
    old, young = NOW - timedelta(days=91), NOW - timedelta(days=89)
    for number in range(2_100):
        await records.said(f"old {number}", old)
    undelivered = await records.said("undelivered", old, status="waiting")
    edited, asked = await records.said("first words", old), await records.said("may I?", old)
    await records.database.execute(
        "INSERT INTO choir_control.outbox (dm, gateway, agent_id, kind, text, at, edits) "
        "VALUES ('console', 'console', 'choir', 'notice', 'better words', now(), $1)",
        edited,
    )
    await records.store(conversation_log("s1", "banana"), timedelta(days=1))
    for approval, status in (("open", "pending"), ("decided", "approved")):
        notice = asked if status == "pending" else await records.said("done?", old)
        await records.database.execute(
            "INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, call_id, "
            "request_type, payload, status, notice_id, resolved_at) VALUES ($1, 's1', 'main', $1, 'call', "
            "'{}', $2, $3, now())",
            approval,
            status,
            notice,
        )
    newest = await records.said("the newest", young)
    for name, at, answered in (("a", old, 1), ("b", old, None), ("c", young, 1)):
        await records.database.execute(INBOX, name, "hello", at, None, answered)
    for name, status, ended in (
        ("old", "succeeded", old),
        ("running", "running", None),
        ("young", "failed", young),
    ):
        await records.database.execute(OPERATION, name, status, old, ended)
    await records.job.sweep()

    left = await records.database.fetch("SELECT outbox_id, text FROM choir_control.outbox")
    assert {row["outbox_id"] for row in left} >= {undelivered, edited, asked, newest}
    assert {row["text"] for row in left} == {
        *("undelivered", "first words", "better words", "may I?", "the newest", "I see: banana"),
    }
    inbox = await records.database.fetch("SELECT inbox_id FROM choir_control.inbox")
    assert {row["inbox_id"] for row in inbox} == {"b", "c", "s1-2"}
    operations = await records.database.fetch("SELECT operation_id FROM choir_control.operations")
    assert {row["operation_id"] for row in operations} == {"running", "young"}


async def test_the_newest_message_of_a_conversation_stays_whatever_its_age(
    records: Records,
) -> None:
    await records.said("older", NOW - timedelta(days=400))
    newest = await records.said("newest", NOW - timedelta(days=300))
    await records.job.sweep()
    rows = await records.database.fetch("SELECT outbox_id FROM choir_control.outbox")
    assert [row["outbox_id"] for row in rows] == [newest]


APPROVAL = """
INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, call_id, request_type,
    payload, status, resolved_at) VALUES ($1, $2, 'main', $1, 'config_change', '{}', $3, $4)
"""
EFFECT = (
    "INSERT INTO choir_control.approval_effects (approval_id, digest, stage) VALUES ($1, 'd', $2)"
)
NONCE = (
    "INSERT INTO choir_control.approval_nonces (nonce_sha256, approval_id, dm, user_id, digest) "
    "VALUES ($1, $2, 'console', 'u', 'd')"
)


async def test_decided_approvals_go_with_what_came_of_them(records: Records) -> None:
    old, young = NOW - timedelta(days=366), NOW - timedelta(days=364)
    await records.store(conversation_log("over", "banana"), timedelta(days=1))
    live = conversation_log("live", "cherry")
    await records.store(live, timedelta(days=1))
    await records.database.execute(
        "UPDATE choir_control.sessions SET status = 'active', ended_at = NULL WHERE session_id = 'live'"
    )
    for name, session, status, at, stage in (
        ("rejected", "over", "rejected", old, None),
        ("applied", "over", "approved", old, "applied"),
        ("young", "over", "approved", young, "applied"),
        ("half done", "over", "approved", old, "applying"),
        ("open", "over", "pending", None, None),
        ("of a live session", "live", "approved", old, None),
    ):
        await records.database.execute(APPROVAL, name, session, status, at)
        await records.database.execute(NONCE, name.encode(), name)
        if stage:
            await records.database.execute(EFFECT, name, stage)
    await records.job.sweep()
    left = {"young", "half done", "open", "of a live session"}
    assert await records.column("pending_approvals", "approval_id") == left
    assert await records.column("approval_nonces", "approval_id") == left
    assert await records.column("approval_effects", "approval_id") == {"young", "half done"}


async def test_old_versions_of_the_configuration_go_and_the_newest_stay(records: Records) -> None:
    in_force = await records.database.fetchval("SELECT version FROM choir_control.config_versions")
    for number in range(2 * KEEP_NEWEST_CONFIGS):
        await records.database.execute(
            "INSERT INTO choir_control.config_versions (digest, body, read_at) VALUES ($1, '{}', $2)",
            f"digest {number}",
            NOW - timedelta(days=366 if number < 2 * KEEP_NEWEST_CONFIGS - 3 else 1),
        )
    await records.job.sweep()
    left = await records.column("config_versions", "digest")
    # what was read a moment ago is young, whatever its number
    newest = {f"digest {number}" for number in range(KEEP_NEWEST_CONFIGS, 2 * KEEP_NEWEST_CONFIGS)}
    assert left >= newest and len(left) == KEEP_NEWEST_CONFIGS + 1
    assert in_force in await records.column("config_versions", "version")
    versions = ConfigVersionStore(records.database)
    assert await versions.last_body() == "{}"


async def test_a_session_goes_a_year_after_its_log(records: Records) -> None:
    """Its row is needed by `session verify`, by what names it, and if it is the newest of its agent."""
    for number, word in enumerate(("banana", "cherry", "damson", "elder", "fig")):
        await records.store(conversation_log(f"s{number}", word), timedelta(days=900 - number))
    await records.database.execute(
        "UPDATE choir_control.sessions SET continues = 's0' WHERE session_id = 's1'"
    )
    empty = NOW - timedelta(days=800)
    await records.database.execute(SESSION, "empty", 0, GENESIS, empty, empty)
    await records.database.execute(APPROVAL, "a", "s3", "approved", NOW)
    await records.job.sweep()
    # s4 is the last that was talked in: its log stays
    assert await records.column("sessions", "session_id") == {"s0", "s1", "s2", "s3", "s4", "empty"}
    await records.database.execute(
        "UPDATE choir_control.erased_logs SET finished_at = now() - make_interval(days => CASE session_id "
        "WHEN 's2' THEN 364 ELSE 366 END)"
    )
    await records.store(conversation_log("s5"), timedelta(days=1))
    await records.job.sweep()
    assert await records.column("sessions", "session_id") == {"s2", "s3", "s4", "s5"}
    assert await records.column("erased_logs", "session_id") == {"s2", "s3"}


@pytest.mark.parametrize("keep", [30, None])
async def test_logs_of_a_deleted_agent_are_erased_if_config_says_so(
    database: Database, tmp_path: Path, keep: int | None
) -> None:
    """Also its newest one: no session will continue it."""
    records = await make_records(database, tmp_path, None, {"deleted_agents": keep})
    old, other = conversation_log("s1", "banana"), conversation_log("s2", "cherry")
    await records.store(old, timedelta(days=31))
    await records.store(other, timedelta(days=31))
    await records.database.execute(
        "UPDATE choir_control.sessions SET agent_id = 'gone' WHERE session_id = 's1'"
    )
    await records.job.sweep()
    assert await records.holds("banana") is (keep is None)
    assert (await records.verify(old)).ok and await records.holds("cherry")


async def test_choird_prunes_by_itself(stopped: World) -> None:
    await stopped.start()
    await stopped.stop()
    old = NOW - timedelta(days=91)
    await stopped.database.execute(OPERATION, "old", "succeeded", old, old)
    await stopped.start()

    async def gone() -> bool:
        return not await stopped.database.fetchval("SELECT count(*) FROM choir_control.operations")

    await until(gone)


async def test_operators_are_told_that_a_log_was_erased(world: World, agent: AgentHand) -> None:
    session_id = agent.spec.session_id
    agent.say("words")
    await agent.flush()
    logs = ErasedLogStore(world.database)
    await logs.store_hashes(session_id)
    await logs.erase_batch(session_id, 100)
    found = await world.verify(session_id)
    assert found["ok"] and found["events"] == 2 and found["erased_at"]
    told = await world.get(f"/v1/sessions/{session_id}/events")
    assert told.status_code == 404 and "agents.main.retention.log" in told.json()["detail"]
