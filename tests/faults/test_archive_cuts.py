"""Row R12: the way of sessions into memory is cut at each of its lines, and goes on to the same rows."""

import asyncio
import os
from datetime import timedelta
from typing import Any

import orjson

from choir_common.eventlog.signature import AuditKeyring
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.config import Config
from choir_common.wire.memory_sessions import (
    ArchivePage,
    ArchiveProgress,
    EraseSession,
    RecordUnits,
    SessionErased,
    UnitsRecorded,
)
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.archiving.rehearsal_eraser import RehearsalEraser
from choir_control.log.archiving.store import ArchiveStore
from choir_control.log.eventlog.store import EventStore
from choir_memory.admin.write import SessionEraser
from choir_memory.schema.store import SpaceRegistry, SpaceStore
from choir_memory.sessions.recorder import UnitRecorder
from tests.faults.test_cuts import VICTIM, Witness, dsn, postgres, witness
from tests.service.control.test_archiving import Desk, Documents, Stubborn
from tests.service.memory.session_archive import make_session_archive
from tests.support.crash_injection import crash_at_each_line
from tests.support.fixed_configuration import FixedConfiguration
from tests.support.postgres import PASSWORD
from tests.support.sessions import LogBuilder, conversation_log

__all__ = ["dsn", "postgres", "witness"]

# all of them take minutes: `make nightly` does them, else each of so many
EVERY = 1 if os.environ.get("CHOIR_TEST_EVERY_CUT") == "1" else 131
CONTROL = ("/archiving/archiver.py", "/archiving/store.py")
MEMORY = ("/sessions/archive.py", "/sessions/promotion.py", "/sessions/store.py")
CONFIG = Config.model_validate_json(
    orjson.dumps({"agents": {}, "workspaces": {}, "memory": {"mid_term_sessions": 1}})
)
SPACE = """
TRUNCATE choir_main.memory_documents CASCADE;
TRUNCATE choir_memory.sessions, choir_memory.embedding_queue;
UPDATE choir_control.sessions SET archived_rev = 0, archived_at = NULL, archive_due_at = NULL
"""
FOUND = (
    "SELECT id, session_id, tier, chunk_index, kind, text, tsv::text, happened_at, ended_at, speaker, "
    "first_rev, last_rev, origin, trust, metadata FROM choir_main.memory_documents ORDER BY id",
    "SELECT session_id, started_at, ended_at, through_rev, unsettled, summary, topics, "
    "promoted_at IS NOT NULL AS promoted FROM choir_memory.sessions ORDER BY session_id",
    "SELECT document_id FROM choir_memory.embedding_queue ORDER BY document_id",
    "SELECT session_id, archived_rev, archived_at IS NOT NULL AS done FROM choir_control.sessions "
    "ORDER BY session_id",
)
# every document has its vector or waits for it, also in long-term memory
FORGOTTEN = """
SELECT count(*) FROM choir_main.memory_documents d
WHERE NOT EXISTS (
    SELECT FROM choir_memory.embedding_queue q WHERE q.document_id = d.id)
"""


class SilentQueue:
    """An embedding queue that nobody works on."""

    def notify(self, documents: int = 1) -> None:
        """Ignore the documents."""


class HereMemory:
    """The memory service's own room of sessions, without a bus between."""

    def __init__(self, database: Database, spaces: SpaceRegistry) -> None:
        queue: Any = SilentQueue()
        self._archive = make_session_archive(database, spaces, queue)
        self._recorder = UnitRecorder(database, spaces, queue)
        self._eraser = SessionEraser(database, spaces)

    async def archive(self, page: ArchivePage) -> ArchiveProgress:
        return await self._archive.take(page)

    async def record(self, units: RecordUnits) -> UnitsRecorded:
        return await self._recorder.record(units)

    async def erase(self, session: EraseSession) -> SessionErased:
        return await self._eraser.erase(session)


def make_scripts() -> list[LogBuilder]:
    """Return three sessions; the first two go to long-term memory, one without a summary."""
    scripts = [
        conversation_log("s0", "one otter", summary="Of an otter."),
        conversation_log("s1", *(f"message {number}" for number in range(6))),
        conversation_log("s2", "a third"),
    ]
    for number, script in enumerate(scripts):
        script.started_at += timedelta(days=number)
    return scripts


async def prepare(database: Database) -> None:
    await migrate(database, "choir_control", read_migrations("choir_control.migrations"))
    await open_spaces(database)
    desk = Desk(database, Stubborn(), make_archivist(database, open_later(database)), [])
    for script in make_scripts():
        await desk.store(script)


def open_later(database: Database) -> SpaceRegistry:
    return SpaceRegistry(SpaceStore(database))


async def open_spaces(database: Database) -> SpaceRegistry:
    spaces = open_later(database)
    await spaces.open()
    await database.execute(
        "INSERT INTO choir_memory.embedding_models (name, dimensions, state) VALUES ('m', 8, 'active')"
    )
    await spaces.ensure("main")
    return spaces


def make_archivist(database: Database, spaces: SpaceRegistry) -> SessionArchiver:
    memory = HereMemory(database, spaces)
    events, rehearsals = (
        EventStore(database, AuditKeyring()),
        RehearsalEraser(database, memory, Documents([])),
    )
    return SessionArchiver(
        store=ArchiveStore(database),
        events=events,
        memory=memory,
        configuration=FixedConfiguration(CONFIG),  # type: ignore[arg-type]
        rehearsals=rehearsals,
        page_events=5,
    )


async def archive(database: Database) -> None:
    """Hand on all there is, in both services' code."""
    await make_archivist(database, open_later(database)).sweep()


async def found(database: Database) -> list[list[tuple[object, ...]]]:
    return [[tuple(row.values()) for row in await database.fetch(sql)] for sql in FOUND]


async def clear(database: Database) -> None:
    async with database.connection() as held:
        await held.execute(SPACE)


def test_a_session_that_was_cut_anywhere_on_its_way_arrives_whole_and_once(
    dsn: str, witness: Witness
) -> None:
    witness.do(prepare)
    witness.do(archive)
    whole = witness.do(found)
    assert [len(rows) for rows in whole] == [2 + 12 + 2 + 2, 3, 2 + 12 + 2 + 2, 3]
    witness.do(clear)

    async def in_a_victim() -> None:
        async with Database(dsn, PASSWORD, size=2, application=VICTIM) as database:
            await archive(database)

    begun = 0
    for number in crash_at_each_line(
        lambda: asyncio.run(in_a_victim()), *CONTROL, *MEMORY, every=EVERY
    ):
        witness.settled()
        assert witness.do(lambda database: database.fetchval(FORGOTTEN)) == 0, number
        left = witness.do(found)
        begun += left != whole and bool(left[0])
        witness.do(archive)
        assert witness.do(found) == whole, number
        witness.do(clear)
    assert begun > 3
    print(f"sessions archived: {number} cuts, {begun} of them amid the rows")
