"""An operator at the memory service's parts, for its tests."""

from dataclasses import dataclass
from uuid import uuid4

from choir_common.clock import SystemClock
from choir_common.wire.memory_operator import (
    ExportMemory,
    ImportPart,
    ImportRecords,
    MemoryImported,
)
from choir_common.wire.memory_records import Record
from choir_common.wire.model import JsonObject
from choir_memory.admin.export_import import MemoryTransfer
from choir_memory.admin.read import MemoryReader
from choir_memory.admin.write import MemoryWriter
from choir_memory.audit.store import AuditStore
from tests.service.memory.conftest import Room


@dataclass
class Operator:
    """Reads, writes, exports and imports memory."""

    reader: MemoryReader
    writer: MemoryWriter
    transfer: MemoryTransfer

    async def export(self, agent_id: str = "main") -> list[Record]:
        """Return everything, page by page."""
        records: list[Record] = []
        cursor = None
        while True:
            page = await self.transfer.export(ExportMemory(agent_id=agent_id, cursor=cursor))
            records += page.records
            if (cursor := page.next) is None:
                return records

    async def import_records(
        self, records: list[Record], agent_id: str, size: int = 100, name: str = ""
    ) -> list[MemoryImported]:
        """Import records in pieces; return what became of each."""
        name = name or uuid4().hex
        return [
            await self.transfer.import_part(
                ImportPart(
                    agent_id=agent_id,
                    piece=ImportRecords(
                        import_id=name,
                        first=first,
                        total=len(records),
                        records=tuple(records[first : first + size]),
                    ),
                )
            )
            for first in range(0, max(len(records), 1), size)
        ]


def make_operator(room: Room) -> Operator:
    """Sit an operator down at a room."""
    audit = AuditStore(room.database)
    return Operator(
        MemoryReader(
            database=room.database,
            spaces=room.spaces,
            search_service=room.recall,
            audit_log=audit,
            clock=SystemClock(),
        ),
        MemoryWriter(room.database, room.spaces, room.knowledge),
        MemoryTransfer(database=room.database, spaces=room.spaces, audit=audit, queue=room.queue),
    )


async def audited(
    room: Room, agent_id: str = "main"
) -> list[tuple[str, str, set[str], JsonObject]]:
    """Return the audit of an agent, oldest first."""
    found = await AuditStore(room.database).read_page(agent_id, None, 1000)
    return [
        (
            one.entry.actor,
            one.entry.operation,
            {str(each) for each in one.entry.document_ids},
            one.entry.detail,
        )
        for one in reversed(found)
    ]
