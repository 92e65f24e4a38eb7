"""Questions to and writes into the memory service (spec 11.7)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.json import JsonObject
from choir_common.wire.model import AgentName, Moment, Wire

Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class EnsureSpace(Wire):
    """Make the agent's schema and role if they are not there; idempotent."""

    agent_id: AgentName


class MemoryQuery(Wire):
    """Search a store; `agent_id` asks, `target_agent` (default: itself) is searched."""

    agent_id: AgentName
    target_agent: AgentName | None = None
    store: Literal["session", "knowledge"]
    mode: Literal["semantic", "text", "session_detail"] = "semantic"
    query: str = Field(default="", max_length=10_000)
    session_id: str | None = None
    limit: int = Field(default=10, ge=1, le=50)


class ArmScore(Wire):
    """What one search arm thought of a hit: its rank from 1 and its own score."""

    arm: Literal["vector", "text"]
    rank: int
    score: float


class MemoryHit(Wire):
    """A found document, best first."""

    document_id: str
    key: str | None
    text: str
    score: float
    arms: tuple[ArmScore, ...]
    created_at: Moment
    updated_at: Moment
    metadata: JsonObject = Field(default_factory=dict)


class MemoryHits(Wire):
    """The hits, and which arms could be used: `vector` is missing while the provider is down."""

    hits: tuple[MemoryHit, ...]
    arms_used: tuple[Literal["vector", "text"], ...]
    degraded: str | None = None


class MemoryUpsert(Wire):
    """Change the agent's own knowledge under an idempotency key, `call_id`."""

    agent_id: AgentName
    call_id: str = Field(min_length=1, max_length=200)
    operation: Literal["insert", "update", "delete"]
    """`update` replaces or makes the document of `key`; `delete` needs `key` or `document_id`."""
    text: Text | None = None
    key: Key | None = None
    document_id: str | None = None
    metadata: JsonObject = Field(default_factory=dict)
    expected_version: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Write only if the document is at this version; 0: only if there is none under the key yet."""


class MemoryWritten(Wire):
    """What the write did; the same call_id always gets the same answer."""

    document_id: str | None
    key: str | None
    operation: Literal["inserted", "updated", "deleted", "unchanged"]
    embedded: Literal["queued", "none"]
    version: int | None = None
    """The document's version now, counted from 1; none once it is deleted."""


class MemoryStatus(Wire):
    """How the embedding pipeline stands."""

    embedder: str
    dimensions: int
    queued: int
    failed: int
    degraded: str | None = None
