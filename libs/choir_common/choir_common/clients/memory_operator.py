"""Operator client of the memory service over NATS; used by control's operator routes."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntries,
    AuditQuery,
    DeleteDocument,
    DocumentDetail,
    DocumentPage,
    ExportedPage,
    ExportMemory,
    ImportPart,
    ListMemory,
    MemoryErased,
    MemoryImported,
    ReadMemoryState,
    ShowDocument,
)
from choir_common.wire.memory_search import MemoryHits, MemoryQuery, MemoryUpsert, MemoryWritten

TIMEOUT_S = 15.0
LONG_TIMEOUT_S = 60.0
"""Many documents may depend on an erased one; the records of an import are tokenized."""


class MemoryAdminClient(Protocol):
    """An agent's memory for an operator; every call is audited under the operator's name."""

    async def list(self, asked: ListMemory) -> DocumentPage: ...

    async def show(self, asked: ShowDocument) -> DocumentDetail: ...

    async def search(self, query: MemoryQuery) -> MemoryHits: ...

    async def put(self, write: MemoryUpsert) -> MemoryWritten: ...

    async def delete(self, asked: DeleteDocument) -> MemoryErased: ...

    async def export(self, asked: ExportMemory) -> ExportedPage: ...

    async def bring_in(self, asked: ImportPart) -> MemoryImported: ...

    async def audit(self, asked: AuditQuery) -> AuditEntries: ...

    async def state(self, asked: ReadMemoryState) -> AgentMemory: ...


class NatsMemoryAdminClient:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def list(self, asked: ListMemory) -> DocumentPage:
        """List documents; raises NotFound when the agent has no memory, InvalidRequest for a bad cursor."""
        return await self._bus.request(subjects.list_memory(), asked, DocumentPage, TIMEOUT_S)

    async def show(self, asked: ShowDocument) -> DocumentDetail:
        """Show one document; raises NotFound."""
        return await self._bus.request(subjects.show_memory(), asked, DocumentDetail, TIMEOUT_S)

    async def search(self, query: MemoryQuery) -> MemoryHits:
        """Search as the agent would."""
        return await self._bus.request(subjects.search_memory(), query, MemoryHits, TIMEOUT_S)

    async def put(self, write: MemoryUpsert) -> MemoryWritten:
        """Write knowledge; raises Conflict if its version is not the expected one."""
        return await self._bus.request(subjects.put_memory(), write, MemoryWritten, TIMEOUT_S)

    async def delete(self, asked: DeleteDocument) -> MemoryErased:
        """Erase a document and everything derived from it alone; raises NotFound, Conflict."""
        return await self._bus.request(
            subjects.delete_memory(), asked, MemoryErased, LONG_TIMEOUT_S
        )

    async def export(self, asked: ExportMemory) -> ExportedPage:
        """Return one page of the full export."""
        return await self._bus.request(subjects.export_memory(), asked, ExportedPage, TIMEOUT_S)

    async def bring_in(self, asked: ImportPart) -> MemoryImported:
        """Import a part of an export, all or nothing; repeating it changes nothing."""
        return await self._bus.request(
            subjects.import_memory(), asked, MemoryImported, LONG_TIMEOUT_S
        )

    async def audit(self, asked: AuditQuery) -> AuditEntries:
        """Return the audit log, newest first."""
        return await self._bus.request(subjects.audit_memory(), asked, AuditEntries, TIMEOUT_S)

    async def state(self, asked: ReadMemoryState) -> AgentMemory:
        """Return counts and sizes of an agent's memory."""
        return await self._bus.request(subjects.memory_state(), asked, AgentMemory, TIMEOUT_S)
