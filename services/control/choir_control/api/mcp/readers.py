"""What a client may read of an agent beside its answers: memory, and requests for approval.

Both follow from the client's conversation, as for the agent's own turns there (decision 85).
"""

from choir_common.clients.memory import MemoryClient
from choir_common.errors import Forbidden
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.memory_search import MemoryHits, MemoryQuery
from choir_control.agents.host_tools.memory import RECALL_OFF, MemoryTools
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.agents.sessions.memory_modes import MemoryModeService
from choir_control.api.mcp.arguments import MemorySearchArguments
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.configuration.api_clients import ApiClient
from choir_control.configuration.current import ConfigService
from choir_control.configuration.memory_readers import MemoryReaders

MAX_LISTED = 500


class ClientReader:
    """Reads for clients."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        memory: MemoryClient,
        memory_tools: MemoryTools,
        modes: MemoryModeService,
        approvals: ApprovalStore,
    ) -> None:
        self._configuration = configuration
        self._memory = memory
        self._memory_tools = memory_tools
        self._modes = modes
        self._approvals = approvals

    async def search(
        self, client: ApiClient, agent_id: str, dm: str, search: MemorySearchArguments
    ) -> MemoryHits:
        """Search an agent's memory as the person of the client's conversation.

        Raises Forbidden if the conversation is incognito or does not recall.
        """
        memory = await self._modes.show(dm, agent_id)
        if memory.mode == INCOGNITO or not memory.recall:
            raise Forbidden(RECALL_OFF)
        # As if another agent asked: the memory is a person's own unless config.json says that it is shared.
        readers = MemoryReaders(self._configuration.current.people)
        reader = readers.find(agent_id, dm, served=(), of_other=True)
        words = self._memory_tools.redact(search.model_dump(mode="json"))
        query = parse_tool_input(
            MemoryQuery,
            words,
            agent_id=agent_id,
            reader=None if reader is None else reader.model_dump(mode="json"),
        )
        await self._memory_tools.ensure_space(agent_id)
        return await self._memory.query(query)

    async def list_approvals(self, client: ApiClient, agent_id: str, dm: str) -> list[Approval]:
        """Return an agent's pending requests that were made in conversations of the client's person."""
        people = self._configuration.current.people
        has_people = bool(self._configuration.current.config.people)

        def may_see(approval: Approval) -> bool:
            asked_in = approval.further_dm or approval.home_dm
            if asked_in == dm or not has_people:  # without people there is the operator alone
                return True
            return client.person is not None and people.person_in(asked_in) == client.person

        newest = await self._approvals.list_newest(MAX_LISTED)
        return [
            it
            for it in newest
            if it.status == "pending" and it.agent_id == agent_id and may_see(it)
        ]
