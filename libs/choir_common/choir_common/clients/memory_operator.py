"""Call the memory service for an operator over the bus; used by control's operator door."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memories import MemoryHits, MemoryQuery, MemoryUpsert, MemoryWritten
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
    ListMemory,
    MemoryErased,
    MemoryImported,
    ReadState,
    ShowDocument,
)

TIMEOUT_S = 15.0
ERASE_S = 60.0
"""What stands on a document may be much; a piece of an import is cut into words."""


class OperatorMemory(Protocol):
    """An agent's memory as an operator sees and changes it; everything is audited as the operator's."""

    async def list(self, asked: ListMemory) -> DocumentPage: ...

    async def show(self, asked: ShowDocument) -> DocumentDetail: ...

    async def search(self, query: MemoryQuery) -> MemoryHits: ...

    async def put(self, write: MemoryUpsert) -> MemoryWritten: ...

    async def delete(self, asked: DeleteDocument) -> MemoryErased: ...

    async def export(self, asked: ExportMemory) -> ExportedPage: ...

    async def bring_in(self, asked: BringIn) -> MemoryImported: ...

    async def audit(self, asked: AuditQuery) -> AuditEntries: ...

    async def state(self, asked: ReadState) -> AgentMemory: ...


class BusOperatorMemory:
    """The memory service over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def list(self, asked: ListMemory) -> DocumentPage:
        """List documents; raises NotFound when the agent has no memory, BadInput for a bad cursor."""
        return await self._bus.ask(subjects.list_memory(), asked, DocumentPage, TIMEOUT_S)

    async def show(self, asked: ShowDocument) -> DocumentDetail:
        """Show one document; raises NotFound."""
        return await self._bus.ask(subjects.show_memory(), asked, DocumentDetail, TIMEOUT_S)

    async def search(self, query: MemoryQuery) -> MemoryHits:
        """Search as the agent would."""
        return await self._bus.ask(subjects.search_memory(), query, MemoryHits, TIMEOUT_S)

    async def put(self, write: MemoryUpsert) -> MemoryWritten:
        """Write knowledge; raises Conflict when it is at another version than expected."""
        return await self._bus.ask(subjects.put_memory(), write, MemoryWritten, TIMEOUT_S)

    async def delete(self, asked: DeleteDocument) -> MemoryErased:
        """Erase a document and what only it supported; raises NotFound, Conflict."""
        return await self._bus.ask(subjects.delete_memory(), asked, MemoryErased, ERASE_S)

    async def export(self, asked: ExportMemory) -> ExportedPage:
        """Return a page of everything."""
        return await self._bus.ask(subjects.export_memory(), asked, ExportedPage, TIMEOUT_S)

    async def bring_in(self, asked: BringIn) -> MemoryImported:
        """Store a piece of an export, all of it or nothing; repeating it changes nothing."""
        return await self._bus.ask(subjects.import_memory(), asked, MemoryImported, ERASE_S)

    async def audit(self, asked: AuditQuery) -> AuditEntries:
        """Return who did what, newest first."""
        return await self._bus.ask(subjects.audit_memory(), asked, AuditEntries, TIMEOUT_S)

    async def state(self, asked: ReadState) -> AgentMemory:
        """Tell how an agent's memory stands."""
        return await self._bus.ask(subjects.state_of_memory(), asked, AgentMemory, TIMEOUT_S)
