"""The memory tools, executed by the memory service.

All inputs pass the redactor here, because only control knows the values of all secrets. This
includes queries: the memory service stores a receipt of each one.
"""

from choir_common.clients.memory import Memory
from choir_common.redactor import Redactor
from choir_common.wire.json import JsonObject
from choir_common.wire.memories import EnsureSpace, MemoryQuery, MemoryUpsert
from choir_common.wire.memory_hints import HintsWanted
from choir_common.wire.memory_reminders import RemindersWanted
from choir_common.wire.model import Wire
from choir_control.hosttools.read import read_input
from choir_control.leases.store import Lease


class MemoryTools:
    """Handlers of the memory tools; create an agent's schema before its first use."""

    def __init__(self, memory: Memory, redactor: Redactor) -> None:
        self._memory = memory
        self._redactor = redactor
        self._ensured: set[str] = set()

    async def query(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Search; `target_agent` may name another agent, for reading only."""
        query = read_input(MemoryQuery, self.clean(given), agent_id=lease.agent_id)
        await self.ensure(lease.agent_id)
        return await self._memory.query(query)

    async def upsert(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Write to the agent's own knowledge, once per call."""
        key = f"{lease.session_id}:{call_id}"[:200]
        write = read_input(MemoryUpsert, self.clean(given), agent_id=lease.agent_id, call_id=key)
        await self.ensure(lease.agent_id)
        return await self._memory.upsert(write)

    async def hints(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Return what memory knows about a tool's failures."""
        wanted = read_input(HintsWanted, self.clean(given), agent_id=lease.agent_id)
        await self.ensure(lease.agent_id)
        return await self._memory.hints(wanted)

    async def remind(self, lease: Lease, call_id: str, given: JsonObject) -> Wire:
        """Return the memories to add to a user's message."""
        fixed = {"agent_id": lease.agent_id, "session_id": lease.session_id}
        wanted = read_input(RemindersWanted, self.clean(given), **fixed)
        await self.ensure(lease.agent_id)
        return await self._memory.remind(wanted)

    def clean(self, given: JsonObject) -> JsonObject:
        """Return an input with the values of all secrets masked."""
        cleaned = self._redactor.clean_deep(given)
        assert isinstance(cleaned, dict)
        return cleaned

    async def ensure(self, agent_id: str) -> None:
        """Create the agent's schema and role, once per run of control."""
        if agent_id not in self._ensured:
            await self._memory.ensure(EnsureSpace(agent_id=agent_id))
            self._ensured.add(agent_id)
