"""Endpoints for an operator's access to an agent's memory (`choir_common.clients.memory`).

Built by `app`; next are `operator.look`, `operator.change` and `operator.carry`. Only control calls
these subjects, after it has authenticated the operator.
"""

from dataclasses import dataclass

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
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
from choir_memory.admin.export_import import MemoryTransfer
from choir_memory.admin.read import MemoryReader
from choir_memory.admin.write import MemoryWriter
from choir_memory.endpoints.retry import retry_unavailable


@dataclass(frozen=True, slots=True)
class AdminEndpoints:
    """Endpoints for the requests that control sends on behalf of operators."""

    look: MemoryReader
    change: MemoryWriter
    carry: MemoryTransfer

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.list_memory(), ListMemory, self._list),
            Endpoint(subjects.show_memory(), ShowDocument, self._show),
            Endpoint(subjects.search_memory(), MemoryQuery, self._search),
            Endpoint(subjects.audit_memory(), AuditQuery, self._audit),
            Endpoint(subjects.memory_state(), ReadMemoryState, self._state),
            Endpoint(subjects.put_memory(), MemoryUpsert, self._put),
            Endpoint(subjects.delete_memory(), DeleteDocument, self._delete),
            Endpoint(subjects.export_memory(), ExportMemory, self._export),
            Endpoint(subjects.import_memory(), ImportPart, self._bring_in),
        )

    async def _list(self, asked: ListMemory) -> DocumentPage:
        return await retry_unavailable(lambda: self.look.list(asked))

    async def _show(self, asked: ShowDocument) -> DocumentDetail:
        return await retry_unavailable(lambda: self.look.show(asked))

    async def _search(self, query: MemoryQuery) -> MemoryHits:
        return await retry_unavailable(lambda: self.look.search(query))

    async def _audit(self, asked: AuditQuery) -> AuditEntries:
        return await retry_unavailable(lambda: self.look.audit(asked))

    async def _state(self, asked: ReadMemoryState) -> AgentMemory:
        return await retry_unavailable(lambda: self.look.state(asked))

    async def _put(self, write: MemoryUpsert) -> MemoryWritten:
        return await retry_unavailable(lambda: self.change.put(write))

    async def _delete(self, asked: DeleteDocument) -> MemoryErased:
        # not retried: if the first attempt succeeded unnoticed, a second one would raise NotFound
        return await self.change.delete(asked)

    async def _export(self, asked: ExportMemory) -> ExportedPage:
        return await retry_unavailable(lambda: self.carry.export(asked))

    async def _bring_in(self, asked: ImportPart) -> MemoryImported:
        return await retry_unavailable(lambda: self.carry.bring_in(asked))
