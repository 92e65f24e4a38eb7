"""The memory tools, executed by the memory service.

An incognito session neither writes nor reads memory: a search would send its words to the embedding
provider. With recall off, nothing is read.

What a call may read follows from its conversation (`MemoryReaders`), never from its input.

All inputs pass the redactor here, because only control knows the values of all secrets. This includes
queries: the memory service stores a receipt of each one.
"""

from pydantic import JsonValue

from choir_common.clients.memory import MemoryClient
from choir_common.errors import Forbidden
from choir_common.redactor import Redactor
from choir_common.wire.memory_collections import ListCollections
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.memory_recall import ReadHints, ReadReminders, Reminders, ToolHints
from choir_common.wire.memory_search import (
    EnsureSpace,
    MemoryQuery,
    MemoryReader,
    MemoryUpsert,
)
from choir_common.wire.model import JsonObject, WireModel
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.configuration.current import ConfigService
from choir_control.configuration.memory_readers import MemoryReaders
from choir_control.log.leases.dm_memory import effective_recall
from choir_control.log.leases.store import Lease

RECALL_OFF = (
    "Recall is off in this conversation, so memory is not read. The user can switch it on with "
    "/recall on."
)


class MemoryTools:
    """Handlers of the memory tools; create an agent's schema before its first use."""

    def __init__(
        self, memory: MemoryClient, redactor: Redactor, configuration: ConfigService
    ) -> None:
        self._memory = memory
        self._redactor = redactor
        self._configuration = configuration
        self._ensured: set[str] = set()

    async def query(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Search; `target_agent` may name another agent, for reading only.

        Raises Forbidden without recall.
        """
        _refuse_incognito(lease)
        if not self._recalls(lease):
            raise Forbidden(RECALL_OFF)
        expand = self._configuration.current.config.memory.query_expansion
        query = parse_tool_input(
            MemoryQuery, self.redact(arguments), agent_id=lease.agent_id, expand=expand, reader=None
        )
        query = query.model_copy(update={"reader": self._reader(lease, query.target_agent)})
        await self.ensure_space(lease.agent_id)
        return await self._memory.query(query)

    async def upsert(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Write to the agent's own knowledge, once per call. Raises Forbidden in an incognito session."""
        _refuse_incognito(lease)
        key = f"{lease.session_id}:{call_id}"[:200]
        fields: JsonObject = {
            "agent_id": lease.agent_id,
            "call_id": key,
            "session_id": lease.session_id,
            "conversation": lease.dm,
            "reader": self._reader_json(lease),
        }
        write = parse_tool_input(MemoryUpsert, self.redact(arguments), **fields)
        await self.ensure_space(lease.agent_id)
        return await self._memory.upsert(write)

    async def collections(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return the agent's collections. Raises Forbidden without recall."""
        _refuse_incognito(lease)
        if not self._recalls(lease):
            raise Forbidden(RECALL_OFF)
        request = parse_tool_input(ListCollections, arguments, agent_id=lease.agent_id)
        await self.ensure_space(lease.agent_id)
        return await self._memory.collections(request)

    async def hints(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return what memory knows about a tool's failures; nothing without recall."""
        if not self._recalls(lease):
            return ToolHints(hints=())
        fields: JsonObject = {"agent_id": lease.agent_id, "reader": self._reader_json(lease)}
        request = parse_tool_input(ReadHints, self.redact(arguments), **fields)
        await self.ensure_space(lease.agent_id)
        return await self._memory.hints(request)

    async def remind(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Return the memories to add to a user's message; none without recall."""
        if not self._recalls(lease):
            return Reminders(reminders=())
        fields: JsonObject = {
            "agent_id": lease.agent_id,
            "session_id": lease.session_id,
            "reader": self._reader_json(lease),
        }
        request = parse_tool_input(ReadReminders, self.redact(arguments), **fields)
        await self.ensure_space(lease.agent_id)
        return await self._memory.remind(request)

    def _reader(self, lease: Lease, target_agent: str | None = None) -> MemoryReader | None:
        """Return whose memory the conversation of a call may read; None: everybody's."""
        agent_id = target_agent or lease.agent_id
        of_other = agent_id != lease.agent_id
        return MemoryReaders(self._configuration.current.people).find(
            agent_id, lease.dm, served=() if of_other else lease.served_dms, of_other=of_other
        )

    def _reader_json(self, lease: Lease) -> JsonValue:
        reader = self._reader(lease)
        return None if reader is None else reader.model_dump(mode="json")

    def _recalls(self, lease: Lease) -> bool:
        agent = self._configuration.current.config.agents.get(lease.agent_id)
        return effective_recall(lease.memory_mode, lease.recall, agent)

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


def _refuse_incognito(lease: Lease) -> None:
    if lease.memory_mode == INCOGNITO:
        raise Forbidden(
            "This conversation is incognito: memory is neither read nor written. The user can switch it "
            "with /memory local."
        )
