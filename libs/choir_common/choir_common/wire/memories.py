"""Questions to and writes into the memory service (spec 11.7)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from choir_common.wire.json import JsonObject
from choir_common.wire.model import AgentName, Moment, Wire

Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]

Arm = Literal["vector", "text", "window", "session", "speaker", "time"]
"""Who has a say in the order of what is found. `vector` and `text` find; the others only weigh."""
ALL_ARMS: tuple[Arm, ...] = ("vector", "text", "window", "session", "speaker", "time")
Tier = Literal["mid_term", "long_term_summary", "long_term_detail", "grain_summary"]
Grain = Literal["day", "week", "month", "quarter", "year"]
Kind = Literal[
    "turn",
    "tools",
    "note",
    "summary",
    "fact",
    "rule",
    "episode",
    "error",
    "entity",
    "document_chunk",
]
"""The first four are of sessions (a note is of either store), the others of knowledge."""
Status = Literal["active", "held", "retired"]
Hidden = Literal["held", "retired", "expired"]
"""What is not found unless it is asked for by name."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class EnsureSpace(Wire):
    """Make the agent's schema and role if they are not there; idempotent."""

    agent_id: AgentName


def _aware(value: object, *, to_the_end: bool = False) -> object:
    """Read a date as midnight UTC, and a time without a zone as UTC: models write both."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return value  # the field's own check says what is wrong
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # "until 31 May" means with that day
    whole_day = to_the_end and _DATE.fullmatch(value.strip())
    return moment + timedelta(days=1) if whole_day else moment


Since = Annotated[Moment, BeforeValidator(_aware)]
Until = Annotated[Moment, BeforeValidator(lambda value: _aware(value, to_the_end=True))]


class MemoryQuery(Wire):
    """Search a store; `agent_id` asks, `target_agent` (default: itself) is searched."""

    agent_id: AgentName
    target_agent: AgentName | None = None
    store: Literal["session", "knowledge"]
    mode: Literal["semantic", "text", "session_detail"] = "semantic"
    query: str = Field(default="", max_length=10_000)

    session_id: str | None = Field(default=None, max_length=200)
    since: Since | None = None
    """When it happened: from here..."""
    until: Until | None = None
    """...to before here; a date alone is meant with that day."""
    speakers: tuple[Word, ...] = Field(default=(), max_length=20)
    kinds: tuple[Kind, ...] = ()
    """Default: all, but of knowledge no `error` and no `entity`."""
    tiers: tuple[Tier, ...] = ()
    """Default: what the mode searches."""
    grain: Grain | None = None
    collection: str | None = Field(default=None, max_length=200)
    origins: tuple[Word, ...] = Field(default=(), max_length=20)
    min_trust: int = Field(default=0, ge=0, le=100)
    tags: JsonObject = Field(default_factory=dict)
    """What the metadata must contain."""
    include: tuple[Hidden, ...] = ()

    limit: int | None = Field(default=None, ge=1, le=50)
    """Hits; 10 unless `budget_tokens` is given."""
    budget_tokens: int | None = Field(default=None, ge=50, le=100_000)
    """As many hits as this holds, with their context; counted as a token for every three bytes."""
    after: int | None = Field(default=None, ge=0)
    """session_detail without a query: go on after this position."""
    context: bool = False
    """Show what stands around a hit in its session: two before it and one after."""
    deadline_ms: int = Field(default=4_000, ge=10, le=9_000)
    """What can be left out is left out when the time is up, and named in `cut`."""
    arms: tuple[Arm, ...] = Field(default=ALL_ARMS, min_length=1)
    """Ask only these."""
    explain: bool = False
    """Answer the receipt, too."""


class ArmScore(Wire):
    """What one arm thought of a hit: rank (0: it did not find it), score, and part of the whole score."""

    arm: Arm
    rank: int
    score: float
    part: float = 0.0


class Beside(Wire):
    """What stands before or after a hit in its session."""

    document_id: str
    position: int
    text: str
    speaker: str | None = None
    happened_at: Moment | None = None
    origin: str = "agent"


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
    kind: Kind = "note"
    tier: Tier | None = None
    status: Status = "active"
    session_id: str | None = None
    """Or the collection it was cut from."""
    position: int | None = None
    speaker: str | None = None
    happened_at: Moment | None = None
    origin: str = "agent"
    trust: int = 50
    version: int = 1
    """What `expected_version` of a write is compared with."""
    before: tuple[Beside, ...] = ()
    after: tuple[Beside, ...] = ()
    """What is a hit itself, or stands beside a better one, is not told again."""
    truncated: bool = False
    """The text did not fit into the budget."""
    times: int = 1
    """How many documents say the same, word for word; this is the newest."""


class MemoryHits(Wire):
    """The hits, and which arms could be used: `vector` is missing while the provider is down."""

    hits: tuple[MemoryHit, ...]
    arms_used: tuple[Arm, ...]
    degraded: str | None = None
    cut: tuple[str, ...] = ()
    """Stages that were left out because the time was up."""
    receipt_id: str | None = None
    """Under which it is kept what this search did."""
    receipt: JsonObject | None = None
    """The same, if the query said `explain`."""
    tokens: int = 0
    """About how many tokens the texts have."""
    more_after: int | None = None
    """session_detail: the position to go on after; None at the end."""


class ReadReceipt(Wire):
    """Ask what a search over this agent's memory did."""

    agent_id: AgentName
    receipt_id: str = Field(min_length=1, max_length=64)


class Receipt(Wire):
    """What a search did: arms, figures and ids, never a text or the question."""

    receipt_id: str
    at: Moment
    agent_id: AgentName
    """Whose memory was searched."""
    asked_by: AgentName
    receipt: JsonObject


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
    outside: bool = False
    """The writer had just read what strangers wrote: this is trusted no further."""


class MemoryWritten(Wire):
    """What the write did; the same call_id always gets the same answer."""

    document_id: str | None
    key: str | None
    operation: Literal["inserted", "updated", "deleted", "unchanged"]
    embedded: Literal["queued", "none"]
    version: int | None = None
    """The document's version now, counted from 1; none once it is deleted."""


class NewModel(Wire):
    """A model whose vectors are being made beside those that are searched."""

    embedder: str
    dimensions: int
    done: int
    documents: int | None
    """How many there are to do; none until they are counted."""


class MemoryStatus(Wire):
    """How the embedding pipeline stands."""

    embedder: str
    dimensions: int
    queued: int
    failed: int
    degraded: str | None = None
    building: NewModel | None = None
