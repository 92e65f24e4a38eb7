"""`/v1/agents/{agent_id}/memory`: list, show, search, write, erase, export and import.

Forwards to the memory service, which audits each request as the operator's. Writes pass the redactor
first, as an agent's own writes do.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import orjson
import structlog
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse

from choir_common.clients.memory import Memory
from choir_common.clients.memory_operator import OperatorMemory
from choir_common.clients.memory_sessions import SessionMemory
from choir_common.errors import BadInput, ChoirError
from choir_common.ids import NAME_PATTERN, new_id
from choir_common.wire.json import JsonObject
from choir_common.wire.memories import (
    MemoryHits,
    MemoryQuery,
    MemoryUpsert,
    MemoryWritten,
    ReadReceipt,
    Receipt,
)
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntries,
    AuditQuery,
    BringIn,
    DeleteDocument,
    DocumentDetail,
    DocumentPage,
    ExportedPage,
    ExportMemory,
    ImportRecords,
    ListMemory,
    MemoryErased,
    MemoryImported,
    PutDocument,
    ReadState,
    ShowDocument,
)
from choir_common.wire.memory_records import ExportEnd, ExportHead
from choir_common.wire.memory_sessions import EraseSession, SessionErased
from choir_common.wire.model import Wire
from choir_control.configuration.current import Configuration
from choir_control.hosttools.memory import MemoryTools
from choir_control.hosttools.read import read_input
from choir_control.operator.body_schema import body_of
from choir_control.rpc.body import parse_body

log = structlog.get_logger("choir.operator.memory")

LINES = "application/x-ndjson"
MOST = 2**31 - 1

AgentPath = Annotated[str, Path(pattern=NAME_PATTERN)]
Name = Annotated[str, Path(min_length=1, max_length=200)]
Word = Annotated[str | None, Query(min_length=1, max_length=200)]


@dataclass(frozen=True, slots=True)
class MemoryRoom:
    """Dependencies of the memory routes."""

    configuration: Configuration
    tools: MemoryTools
    searches: Memory
    memory: OperatorMemory
    sessions: SessionMemory

    async def known(self, agent_id: str) -> str:
        """Return an agent's id; create the memory space first if the agent is configured.

        An agent that is no longer configured may still have a memory; the memory service checks that.
        """
        if agent_id in self.configuration.current.config.agents:
            await self.tools.ensure(agent_id)
        return agent_id

    async def writable(self, agent_id: str) -> str:
        """Return the id of a configured agent. Raises NotFound for any other."""
        self.configuration.current.agent(agent_id)
        return await self.known(agent_id)


def memory_routes(room: MemoryRoom) -> APIRouter:
    """Return the router."""
    router = APIRouter(prefix="/agents/{agent_id}/memory", tags=["memory"])
    router.include_router(_documents(room))
    router.include_router(_writing(room))
    router.include_router(_carrying(room))

    @router.get("")
    async def read_state(agent_id: AgentPath) -> AgentMemory:
        """Show how much an agent remembers, and how much waits for embedding."""
        return await room.memory.state(ReadState(agent_id=await room.known(agent_id)))

    @router.post("/search", openapi_extra=body_of(MemoryQuery))
    async def search(agent_id: AgentPath, request: Request) -> MemoryHits:
        """Search an agent's memory in the same way as the agent does."""
        given = _object(await request.body())
        query = read_input(MemoryQuery, room.tools.clean(given), agent_id=agent_id)
        if query.target_agent is not None:
            raise BadInput(
                "An operator searches the memory the path names: leave target_agent out."
            )
        await room.known(agent_id)
        return await room.memory.search(query)

    @router.get("/receipts/{receipt_id}")
    async def read_receipt(
        agent_id: AgentPath, receipt_id: Annotated[str, Path(min_length=1, max_length=64)]
    ) -> Receipt:
        """Show how a search ran: arms, figures and ids."""
        return await room.searches.receipt(ReadReceipt(agent_id=agent_id, receipt_id=receipt_id))

    @router.delete("/sessions/{session_id}")
    async def erase_session(agent_id: AgentPath, session_id: Name) -> SessionErased:
        """Erase everything that memory stores of a session, permanently; its log stays."""
        asked = EraseSession(agent_id=await room.known(agent_id), session_id=session_id)
        return await room.sessions.erase(asked)

    @router.get("/audit")
    async def read_audit(
        agent_id: AgentPath,
        before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> AuditEntries:
        """Show who did what to an agent's memory, newest first; documents by id only."""
        return await room.memory.audit(AuditQuery(agent_id=agent_id, before=before, limit=limit))

    return router


def _documents(room: MemoryRoom) -> APIRouter:
    router = APIRouter(prefix="/documents")

    @router.get("")
    async def list_documents(
        agent_id: AgentPath,
        store: Annotated[str, Query(pattern="^(knowledge|session)$")] = "knowledge",
        kind: Word = None,
        session_id: Word = None,
        key_prefix: Word = None,
        hidden: bool = False,
        cursor: Word = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> DocumentPage:
        """List documents, newest first."""
        asked: JsonObject = {
            "store": store,
            "kind": kind,
            "session_id": session_id,
            "key_prefix": key_prefix,
            "hidden": hidden,
            "cursor": cursor,
            "limit": limit,
        }
        known = await room.known(agent_id)
        return await room.memory.list(read_input(ListMemory, asked, agent_id=known))

    @router.get("/{name:path}")
    async def show_document(agent_id: AgentPath, name: Name) -> DocumentDetail:
        """Show one complete document, by id or key."""
        return await room.memory.show(ShowDocument(agent_id=await room.known(agent_id), name=name))

    @router.delete("/{name:path}")
    async def delete_document(
        agent_id: AgentPath,
        name: Name,
        expected_version: Annotated[int | None, Query(ge=1, le=MOST)] = None,
    ) -> MemoryErased:
        """Erase a document and everything that only it supported, permanently, by id or key."""
        known = await room.known(agent_id)
        asked = DeleteDocument(agent_id=known, name=name, expected_version=expected_version)
        return await room.memory.delete(asked)

    return router


def _writing(room: MemoryRoom) -> APIRouter:
    router = APIRouter()

    @router.post("/documents", openapi_extra=body_of(PutDocument))
    async def put_document(agent_id: AgentPath, request: Request) -> MemoryWritten:
        """Store knowledge: under a key, replacing a document, or as a new one."""
        cleaned = room.tools.clean(_object(await request.body()))
        asked = parse_body(orjson.dumps(cleaned), PutDocument)
        named = asked.key is not None or asked.document_id is not None
        write = MemoryUpsert(
            agent_id=await room.writable(agent_id),
            # prefixed, so that it can never equal the call id of an agent
            call_id=f"operator:{asked.call_id or new_id('put')}",
            operation="update" if named else "insert",
            text=asked.text,
            key=asked.key,
            document_id=asked.document_id,
            metadata=asked.metadata,
            expected_version=asked.expected_version,
        )
        return await room.memory.put(write)

    return router


def _carrying(room: MemoryRoom) -> APIRouter:
    router = APIRouter()

    @router.get("/export", response_class=StreamingResponse)
    async def export(agent_id: AgentPath) -> StreamingResponse:
        """Stream an agent's complete memory as JSON lines; the last line confirms that it is complete."""
        asked = ExportMemory(agent_id=await room.known(agent_id))
        # fetch the first page before the response starts, so that an error still has its status code
        first = await room.memory.export(asked)
        return StreamingResponse(_lines(room.memory, agent_id, first), media_type=LINES)

    @router.post("/import", openapi_extra=body_of(ImportRecords))
    async def bring_in(agent_id: AgentPath, request: Request) -> MemoryImported:
        """Store a part of an export, all or nothing; records that already exist are left unchanged."""
        cleaned = room.tools.clean(_object(await request.body()))
        piece = parse_body(orjson.dumps(cleaned), ImportRecords)
        known = await room.writable(agent_id)
        return await room.memory.bring_in(BringIn(agent_id=known, piece=piece))

    return router


async def _lines(memory: OperatorMemory, agent_id: str, page: ExportedPage) -> AsyncIterator[bytes]:
    yield _line(ExportHead(agent_id=agent_id, exported_at=datetime.now(UTC)))
    records = 0
    while True:
        for record in page.records:
            yield _line(record)
        records += len(page.records)
        if page.next is None:
            yield _line(ExportEnd(records=records))
            return
        try:
            page = await memory.export(ExportMemory(agent_id=agent_id, cursor=page.next))
        except ChoirError as error:
            # The response has started: without its last line the reader knows that it is incomplete.
            log.warning("export cut", agent_id=agent_id, records=records, why=error.message)
            return


def _line(record: Wire) -> bytes:
    return f"{record.model_dump_json()}\n".encode()


def _object(body: bytes) -> JsonObject:
    try:
        found = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadInput(f"The body is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise BadInput("The body must be a JSON object.")
    return found
