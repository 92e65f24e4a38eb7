"""The client: where it connects to, and its groups of operations."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

from choir_client import operations
from choir_client._async.agents import AsyncAgents
from choir_client._async.approvals import AsyncApprovals
from choir_client._async.collections import AsyncCollections
from choir_client._async.connection import AsyncConnection
from choir_client._async.conversations import ANSWER_TIMEOUT_S, AsyncConversation
from choir_client._async.hooks import AsyncHooks, AsyncTriggers
from choir_client._async.jobs import AsyncJobs
from choir_client._async.memory import AsyncMemory
from choir_client._async.people import AsyncPeople
from choir_client._async.schedules import AsyncSchedules
from choir_client._async.sessions import AsyncSessions
from choir_client._async.settings import AsyncConfig, AsyncSecrets
from choir_client._async.work import AsyncCostReports, AsyncOperations
from choir_client.conversation_events import Answer, choose_conversation
from choir_common.target import Target, find_target
from choir_common.wire.operator import DmView, SystemStatus


class AsyncChoirClient:
    """Client of one Choir, over its Unix socket or HTTP(S).

    Without arguments it finds the Choir as choirctl does: CHOIR_URL or else the socket in CHOIR_HOME or
    ~/.choir.d, and the token, which only HTTP needs, in CHOIR_TOKEN or secrets.json. Nothing is sent before
    the first call. Use it in a `with` block, or close it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        home: Path | str | None = None,
        ca_file: Path | str | None = None,
        target: Target | None = None,
    ) -> None:
        """Raise InvalidRequest for an invalid address, NotFound if `ca_file` cannot be read.

        `ca_file` has the CA certificates (PEM) of an HTTPS address; `target` excludes the other arguments.
        """
        if target is None:
            target = find_target(
                Path(home) if home else None,
                url,
                token=token,
                ca_file=Path(ca_file) if ca_file else None,
            )
        self.connection = AsyncConnection(target)
        """For requests that have no method here."""
        self.agents = AsyncAgents(self.connection)
        self.approvals = AsyncApprovals(self.connection)
        self.config = AsyncConfig(self.connection)
        self.costs = AsyncCostReports(self.connection)
        self.hooks = AsyncHooks(self.connection)
        self.jobs = AsyncJobs(self.connection)
        self.operations = AsyncOperations(self.connection)
        self.people = AsyncPeople(self.connection)
        self.schedules = AsyncSchedules(self.connection)
        self.secrets = AsyncSecrets(self.connection)
        self.sessions = AsyncSessions(self.connection)
        self.triggers = AsyncTriggers(self.connection)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connection.target.display_address!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.connection.aclose()

    async def status(self) -> SystemStatus:
        """Return the status of the whole system."""
        return await self.connection.call(operations.STATUS)

    async def dms(self) -> list[DmView]:
        """Return the configured conversations, with the agent bound to each."""
        return (await self.connection.call(operations.LIST_DMS)).items

    def conversation(self, dm: str) -> AsyncConversation:
        """Return a conversation of a console gateway by its name."""
        return AsyncConversation(self.connection, dm)

    async def conversation_of(self, agent_id: str) -> AsyncConversation:
        """Return the conversation in which programs talk with an agent.

        Raises NotFound, and Conflict if the agent does not run or has none.
        """
        agent = await self.agents.get(agent_id)
        return self.conversation(choose_conversation(agent, await self.dms()))

    def memory(self, agent_id: str) -> AsyncMemory:
        """Return the memory of an agent."""
        return AsyncMemory(self.connection, agent_id)

    def collections(self, agent_id: str) -> AsyncCollections:
        """Return the collections of an agent."""
        return AsyncCollections(self.connection, agent_id)

    async def ask(self, agent_id: str, text: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Answer:
        """Send a message to an agent and wait for its answer.

        Raises the errors of `conversation_of`, and of `send` and `wait` of a conversation.
        """
        conversation = await self.conversation_of(agent_id)
        return await conversation.ask(text, timeout_s=timeout_s)

    async def stream(
        self, agent_id: str, text: str, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> AsyncGenerator[str]:
        """Send a message to an agent and yield the answer in pieces, as it is written; raises as `ask`."""
        conversation = await self.conversation_of(agent_id)
        sent = await conversation.send(text)
        async with aclosing(conversation.stream(sent, timeout_s=timeout_s)) as pieces:
            async for piece in pieces:
                yield piece
