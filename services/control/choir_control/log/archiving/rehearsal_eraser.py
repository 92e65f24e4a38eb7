"""Erasure of rehearsals from memory, so that a real model is not reminded of them.

A rehearsal is a session with the scripted rehearsal model.
"""

from typing import Protocol

import structlog

from choir_common.clients.memory import SessionMemoryClient
from choir_common.errors import NotFound
from choir_common.postgres.pool import Database
from choir_common.wire.memory_operator import DeleteDocument, MemoryErased
from choir_common.wire.memory_sessions import EraseSession
from choir_control.log.eventlog.store import IS_REHEARSAL_SQL

log = structlog.get_logger("choir.archiving")

_DUE = f"""
SELECT s.session_id, s.agent_id FROM choir_control.sessions AS s
WHERE s.rehearsal AND s.forgotten_at IS NULL AND s.ended_at IS NOT NULL
  AND s.memory_mode <> 'incognito'  -- memory never had it
  AND ($1::text IS NULL OR s.agent_id = $1) AND {IS_REHEARSAL_SQL}
  AND EXISTS (SELECT FROM choir_control.sessions AS later WHERE later.agent_id = s.agent_id
              AND NOT later.rehearsal AND later.started_at > s.started_at)
ORDER BY s.started_at
"""  # noqa: S608 constants only
_WRITTEN = """
SELECT DISTINCT payload ->> 'document_id' AS document_id FROM choir_control.session_events
WHERE session_id = $1 AND type = 'memory_write_committed' AND payload ->> 'operation' = 'inserted'
  AND payload ->> 'document_id' IS NOT NULL
"""
_FORGOTTEN = """
UPDATE choir_control.sessions SET forgotten_at = clock_timestamp(),
    archived_at = COALESCE(archived_at, clock_timestamp())
WHERE session_id = $1
"""


class DocumentEraser(Protocol):
    """The one method of memory's operator client that is needed here."""

    async def delete(self, request: DeleteDocument) -> MemoryErased:
        """Erase a document; raises NotFound."""


class RehearsalEraser:
    """Eraser of rehearsals from memory."""

    def __init__(
        self, database: Database, sessions: SessionMemoryClient, documents: DocumentEraser
    ) -> None:
        self._database = database
        self._sessions = sessions
        self._documents = documents

    async def forget(self, agent_id: str | None = None) -> None:
        """Erase all rehearsals that precede a session with a real model, of one agent or of all (None).

        Raises Unavailable if memory or the database is unavailable; the next call erases the rest.
        """
        for row in await self._database.fetch(_DUE, agent_id):
            await self._forget_one(row["agent_id"], row["session_id"])

    async def _forget_one(self, agent_id: str, session_id: str) -> None:
        for row in await self._database.fetch(_WRITTEN, session_id):
            name = str(row["document_id"])
            try:
                await self._documents.delete(DeleteDocument(agent_id=agent_id, name=name))
            except NotFound:
                continue  # deleted in the meantime
        try:
            await self._sessions.erase(EraseSession(agent_id=agent_id, session_id=session_id))
        except NotFound:
            log.debug("memory never had this rehearsal", session=session_id)
        await self._database.execute(_FORGOTTEN, session_id)
        log.info("rehearsal erased from memory", agent=agent_id, session=session_id)
