"""How each action of a year is performed: by the clients that control uses, and by control's own archiver."""

import asyncio
import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import assert_never

import orjson

from choir_common.clients.memory import (
    NatsCollectionsClient,
    NatsMemoryAdminClient,
    NatsSessionMemoryClient,
)
from choir_common.errors import Unavailable
from choir_common.eventlog.signature import AuditKeyring
from choir_common.postgres.pool import Database
from choir_common.wire.config import Config
from choir_common.wire.memory_collections import FollowFolder, ListCollections
from choir_common.wire.memory_forget import ForgetMemory, ForgetSelection
from choir_common.wire.messages import Empty
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.archiving.rehearsal_eraser import RehearsalEraser
from choir_control.log.archiving.store import ArchiveStore
from choir_control.log.eventlog.store import EventStore
from tests.faults.year.service import MAINTAIN, PassDone
from tests.faults.year.steps import (
    AGENT,
    COLLECTION,
    Action,
    AddText,
    Archive,
    ChangeFolder,
    ChangeModel,
    Configure,
    Forget,
    Maintain,
    WriteNote,
)
from tests.service.control.test_archiving import EVENT, INSERT, Documents
from tests.service.memory.servers import MemoryProcess
from tests.support.fixed_configuration import FixedConfiguration

CONFIG = Config.model_validate_json(
    orjson.dumps({"agents": {}, "workspaces": {}, "memory": {"mid_term_sessions": 3}})
)
PAGE_EVENTS = 8
"""Few, so that a session has several pages and a crash can be between them."""
MAX_PASSES = 20
MAINTAIN_TIMEOUT_S = 60.0
FILE_TIME_S = 1_577_836_800
"""Time of all files: 2020-01-01."""
# Everything becomes 70 seconds older, so that turns have settled; their order and the cursor keep.
_AGE = (
    "UPDATE choir_main.memory_documents SET created_at = created_at - interval '70 seconds'",
    *(
        f"UPDATE choir_memory.cursors SET position = position || jsonb_build_object('{name}', "
        f"(position ->> '{name}')::timestamptz - interval '70 seconds') WHERE position ? '{name}'"
        for name in ("at", "due", "stored")
    ),
)
_UNARCHIVED = """
SELECT count(*) FROM choir_control.sessions WHERE archived_at IS NULL AND memory_mode <> 'incognito'
"""
_RETRY_NOW = "UPDATE choir_control.sessions SET archive_due_at = NULL"
_OLD_VECTORS = """
SELECT (SELECT count(*) FROM choir_main.memory_embeddings e JOIN choir_memory.embedding_models m
        ON m.id = e.model AND m.state <> 'active')
     + (SELECT count(*) FROM choir_main.knowledge_embeddings e JOIN choir_memory.embedding_models m
        ON m.id = e.model AND m.state <> 'active')
"""


@dataclass(kw_only=True)
class YearActions:
    """The actions; each may be repeated after a failure at any point."""

    memory: MemoryProcess
    database: Database
    folder: Path
    """Followed by the collection `COLLECTION`."""
    _archiver: SessionArchiver = field(init=False)

    def __post_init__(self) -> None:
        sessions = NatsSessionMemoryClient(self.memory.bus)
        self._archiver = SessionArchiver(
            store=ArchiveStore(self.database),
            events=EventStore(self.database, AuditKeyring()),
            memory=sessions,
            configuration=FixedConfiguration(CONFIG),  # type: ignore[arg-type]
            rehearsals=RehearsalEraser(self.database, sessions, Documents([])),
            page_events=PAGE_EVENTS,
        )

    async def perform(self, action: Action) -> None:
        """Perform an action."""
        match action:
            case Archive():
                await self._archive(action)
            case WriteNote():
                await self._write(action)
            case Forget():
                await self._forget(action.selection)
            case AddText():
                await NatsCollectionsClient(self.memory.bus).add(action.document)
            case ChangeFolder():
                await self._change_folder(action)
            case Maintain():
                await self._maintain()
            case Configure() | ChangeModel():
                raise AssertionError("the installation does this itself")
            case _:
                assert_never(action)

    async def _write(self, note: WriteNote) -> None:
        if note.by_operator:
            await NatsMemoryAdminClient(self.memory.bus).put(note.write)
        else:
            await self.memory.client.upsert(note.write)

    async def _archive(self, session: Archive) -> None:
        """Put an ended session into control's tables, and let control send it."""
        log = session.log
        last = log.events[-1]
        async with self.database.transaction() as connection:
            if not await connection.fetchval(
                "SELECT count(*) FROM choir_control.sessions WHERE session_id = $1", log.session_id
            ):
                who = (log.session_id, log.agent_id, "stopped", last.rev, last.hash)
                ended_at = log.started_at + timedelta(hours=1)
                await connection.execute(INSERT, *who, log.started_at, ended_at)
                if session.incognito:
                    await connection.execute(
                        "UPDATE choir_control.sessions SET memory_mode = 'incognito' "
                        "WHERE session_id = $1",
                        log.session_id,
                    )
                for event in log.events:
                    payload = orjson.dumps(event.payload).decode()
                    chain = (event.at, event.hash_prev, event.hash)
                    place = (event.session_id, event.rev, event.lane, event.type)
                    await connection.execute(EVENT, *place, payload, *chain)
        await self._archiver.sweep()
        if await self.database.fetchval(_UNARCHIVED):
            # control waits some seconds after a failure
            await self.database.execute(_RETRY_NOW)
            raise Unavailable("a session is not archived yet")

    async def _forget(self, selection: ForgetSelection) -> None:
        """Erase what the preview shows; after a crash a new preview shows what is left."""
        admin = NatsMemoryAdminClient(self.memory.bus)
        request = ForgetMemory(agent_id=AGENT, selection=selection, actor="user")
        preview = await admin.forget(request)
        if preview.total:
            confirmed = selection.model_copy(update={"expected_digest": preview.digest})
            await admin.forget(request.model_copy(update={"selection": confirmed}))

    async def _change_folder(self, change: ChangeFolder) -> None:
        for old, new in change.renamed.items():
            if (self.folder / old).exists():
                (self.folder / old).rename(self.folder / new)
        for name, text in change.texts.items():
            path = self.folder / name
            if text is None:
                path.unlink(missing_ok=True)
                continue
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            os.utime(path, (FILE_TIME_S, FILE_TIME_S + len(text)))
        collections = NatsCollectionsClient(self.memory.bus)
        before = await self.database.fetchval("SELECT clock_timestamp()")
        await collections.follow(
            FollowFolder(agent_id=AGENT, collection=COLLECTION, folder=str(self.folder))
        )
        while True:
            listed = await self.memory.client.collections(
                ListCollections(agent_id=AGENT, collection=COLLECTION)
            )
            progress = listed.collections[0].folder
            assert progress is not None
            if progress.state == "current" and progress.scanned_at and progress.scanned_at > before:
                return
            await asyncio.sleep(0.05)

    async def _maintain(self) -> None:
        """Let a minute pass, and run passes until nothing is left to do."""
        await self._settle()
        async with self.database.transaction() as connection:
            for statement in _AGE:
                await connection.execute(statement)
        for _ in range(MAX_PASSES):
            bus = self.memory.bus
            if not (await bus.request(MAINTAIN, Empty(), PassDone, MAINTAIN_TIMEOUT_S)).done:
                return
            await self._settle()
        raise AssertionError("maintenance always finds something to do")

    async def _settle(self) -> None:
        """Wait until each document has the vectors of the configured model and no others."""
        while not await self._is_settled():
            await asyncio.sleep(0.03)

    async def _is_settled(self) -> bool:
        status = await self.memory.client.status()
        if status.queued or status.failed or status.building:
            return False
        if status.embedder != self.memory.env["CHOIR_EMBEDDING_MODEL"]:
            return False
        return not await self.database.fetchval(_OLD_VECTORS)
