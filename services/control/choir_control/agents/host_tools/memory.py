"""The memory tools, executed by the memory service.

All inputs pass the redactor here, because only control knows the values of all secrets. This
includes queries: the memory service stores a receipt of each one.
"""

from choir_common.clients.memory import MemoryClient
from choir_common.redactor import Redactor
from choir_common.wire.memory_recall import ReadHints, ReadReminders
from choir_common.wire.memory_search import EnsureSpace, MemoryQuery, MemoryUpsert
from choir_common.wire.model import JsonObject, WireModel
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.log.leases.store import Lease


class MemoryTools:
    """Handlers of the memory tools; create an agent's schema before its first use."""

    def __init__(self, memory: MemoryClient, redactor: Redactor) -> None:
        self._memory = memory
        self._redactor = redactor
        self._ensured: set[str] = set()

    async def query(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Search; `target_agent` may name another agent, for reading only."""
        query = parse_tool_input(MemoryQuery, self.redact(arguments), agent_id=lease.agent_id)
        await self.ensure_space(lease.agent_id)
        return await self._memory.query(query)

    async def upsert(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Write to the agent's own knowledge, once per call."""
        key = f"{lease.session_id}:{call_id}"[:200]
        write = parse_tool_input(
            MemoryUpsert, self.redact(arguments), agent_id=lease.agent_id, call_id=key
        )
        await self.ensure_space(lease.agent_id)
        return await self._memory.upsert(write)

    async def hints(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return what memory knows about a tool's failures."""
        request = parse_tool_input(ReadHints, self.redact(arguments), agent_id=lease.agent_id)
        await self.ensure_space(lease.agent_id)
        return await self._memory.hints(request)

    async def remind(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return the memories to add to a user's message."""
        fields = {"agent_id": lease.agent_id, "session_id": lease.session_id}
        request = parse_tool_input(ReadReminders, self.redact(arguments), **fields)
        await self.ensure_space(lease.agent_id)
        return await self._memory.remind(request)

    def redact(self, arguments: JsonObject) -> JsonObject:
        """Return an input with the values of all secrets masked."""
        result = self._redactor.redact_json(arguments)
        assert isinstance(result, dict)
        return result

    async def ensure_space(self, agent_id: str) -> None:
        """Create the agent's schema and role, once per run of control."""
        if agent_id not in self._ensured:
            await self._memory.ensure(EnsureSpace(agent_id=agent_id))
            self._ensured.add(agent_id)
