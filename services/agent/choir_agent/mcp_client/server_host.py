"""What an MCP server may ask of Choir while one of its tools runs: an answer of the user, or of a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from choir_agent.mcp_client.call_progress import CallProgress
from choir_agent.mcp_client.faults import McpServerError
from choir_agent.tools.tool import CallContext
from choir_common.wire.model import JsonObject

Ability = Literal["elicitation", "sampling"]


@dataclass(slots=True)
class RunningCall:
    """A call of a server's tool that runs now."""

    tool: str
    """Its name in Choir."""
    context: CallContext
    progress: CallProgress
    question_count: int = 0
    """The questions of the server that a person was asked."""


class ServerHost(Protocol):
    """Answers the requests of one server."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What the server is told that it may ask for."""
        ...

    async def ask_person(self, params: JsonObject) -> JsonObject:
        """Return the result of an `elicitation/create` request; raises ChoirError for the server."""
        ...

    async def ask_model(self, params: JsonObject) -> JsonObject:
        """Return the result of a `sampling/createMessage` request; raises ChoirError for the server."""
        ...


def find_asking_call(calls: Sequence[RunningCall]) -> RunningCall:
    """Return the call in which a server asks.

    Raises McpServerError if none runs, so that a server cannot ask by itself, or if calls of several
    conversations run: the protocol does not say which of them asks, and no other one may see the question.
    """
    if not calls:
        raise McpServerError("Choir answers a server's requests only while one of its tools runs.")
    if len({call.context.dm for call in calls}) > 1:
        raise McpServerError(
            "Several conversations use this server now, so it is not known which one this is for. Ask again."
        )
    return calls[-1]
