"""The client: where it connects to, and its groups of operations."""

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

from choir_client import operations
from choir_client._sync.agents import Agents
from choir_client._sync.approvals import Approvals
from choir_client._sync.collections import Collections
from choir_client._sync.connection import Connection
from choir_client._sync.conversations import ANSWER_TIMEOUT_S, Conversation
from choir_client._sync.hooks import Hooks, Triggers
from choir_client._sync.jobs import Jobs
from choir_client._sync.memory import Memory
from choir_client._sync.people import People
from choir_client._sync.schedules import Schedules
from choir_client._sync.sessions import Sessions
from choir_client._sync.settings import Config, Secrets
from choir_client._sync.work import CostReports, Operations
from choir_client.conversation_events import Answer, choose_conversation
from choir_common.target import Target, find_target
from choir_common.wire.operator import DmView, SystemStatus


class ChoirClient:
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
        self.connection = Connection(target)
        """For requests that have no method here."""
        self.agents = Agents(self.connection)
        self.approvals = Approvals(self.connection)
        self.config = Config(self.connection)
        self.costs = CostReports(self.connection)
        self.hooks = Hooks(self.connection)
        self.jobs = Jobs(self.connection)
        self.operations = Operations(self.connection)
        self.people = People(self.connection)
        self.schedules = Schedules(self.connection)
        self.secrets = Secrets(self.connection)
        self.sessions = Sessions(self.connection)
        self.triggers = Triggers(self.connection)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connection.target.display_address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def status(self) -> SystemStatus:
        """Return the status of the whole system."""
        return self.connection.call(operations.STATUS)

    def dms(self) -> list[DmView]:
        """Return the configured conversations, with the agent bound to each."""
        return (self.connection.call(operations.LIST_DMS)).items

    def conversation(self, dm: str) -> Conversation:
        """Return a conversation of a console gateway by its name."""
        return Conversation(self.connection, dm)

    def conversation_of(self, agent_id: str) -> Conversation:
        """Return the conversation in which programs talk with an agent.

        Raises NotFound, and Conflict if the agent does not run or has none.
        """
        agent = self.agents.get(agent_id)
        return self.conversation(choose_conversation(agent, self.dms()))

    def memory(self, agent_id: str) -> Memory:
        """Return the memory of an agent."""
        return Memory(self.connection, agent_id)

    def collections(self, agent_id: str) -> Collections:
        """Return the collections of an agent."""
        return Collections(self.connection, agent_id)

    def ask(self, agent_id: str, text: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Answer:
        """Send a message to an agent and wait for its answer.

        Raises the errors of `conversation_of`, and of `send` and `wait` of a conversation.
        """
        conversation = self.conversation_of(agent_id)
        return conversation.ask(text, timeout_s=timeout_s)

    def stream(
        self, agent_id: str, text: str, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> Generator[str]:
        """Send a message to an agent and yield the answer in pieces, as it is written; raises as `ask`."""
        conversation = self.conversation_of(agent_id)
        sent = conversation.send(text)
        with closing(conversation.stream(sent, timeout_s=timeout_s)) as pieces:
            for piece in pieces:
                yield piece
