"""Programs with a token of their own for the OpenAI-compatible API and the MCP server."""

from typing import Literal

from pydantic import Field

from choir_common.wire.agent_questions import is_question_dm
from choir_common.wire.model import AgentName, AwareTime, WireModel

MAX_CLIENT_NAME = 18
"""With the longest name of an agent, the name of the conversation has at most 64 characters."""
CLIENT_NAME_PATTERN = rf"^[a-z][a-z0-9-]{{0,{MAX_CLIENT_NAME - 1}}}$"

_DM_PREFIX = "api."

ApiScope = Literal["chat", "tools", "jobs", "memory", "approvals", "embeddings", "transcriptions"]
"""What a client may do. `chat`: talk with its agents; `tools`: and offer them tools of its own. Over MCP
also `jobs`: start jobs and read their results, `memory`: search memory, `approvals`: list pending requests.
Over the OpenAI-compatible API also `embeddings` and `transcriptions`: use the embedding model and the
transcription models."""
CONVERSATION_SCOPES: frozenset[ApiScope] = frozenset({"chat", "jobs", "memory", "approvals"})
"""Those that need a conversation with an agent."""


def client_dm(client: str, agent_id: str) -> str:
    """Return the name of a client's conversation with an agent.

    Names of clients have no dot, so no two clients get the same one.
    """
    return f"{_DM_PREFIX}{client}.{agent_id}"


def is_client_dm(dm: str) -> bool:
    """Return whether a conversation has the name of a client's, or is one for questions between agents.

    They read only while they wait for an answer, so nothing is asked or reported there unasked.
    """
    return dm.startswith(_DM_PREFIX) or is_question_dm(dm)


class AddApiClient(WireModel):
    """Add a client, or give an existing one of the same person a new token."""

    name: str = Field(pattern=CLIENT_NAME_PATTERN)
    """Lower-case letters, digits and hyphens, without a dot: it is part of the name of a conversation."""
    person: str | None = Field(default=None, min_length=1, max_length=64)
    """The person in `people` whose rights it has; required if config.json has people."""
    agents: tuple[AgentName, ...] = Field(default=(), max_length=100)
    """The agents that it may talk with; empty: all, also later ones."""
    scopes: tuple[ApiScope, ...] = Field(default=("chat",), min_length=1, max_length=10)


class ApiClientView(WireModel):
    """A client. Its token is not shown: Choir has only a hash of it."""

    name: str
    person: str | None
    agents: tuple[str, ...]
    """Empty: all."""
    scopes: tuple[ApiScope, ...]
    conversations: tuple[str, ...]
    """Its own conversations, one for each agent; none if its person was removed."""
    created_at: AwareTime
    last_used_at: AwareTime | None


class AddedApiClient(WireModel):
    """A client that was added, with its token, which is shown once."""

    client: ApiClientView
    token: str
    base_url: str
    """The address of the OpenAI-compatible API, for the settings of the program."""
    mcp_url: str
    """The address of the MCP server, to which the name of an agent is added."""
