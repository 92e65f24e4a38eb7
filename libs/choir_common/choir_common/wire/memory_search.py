"""Requests to the memory service: search and knowledge writes."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from choir_common.wire.model import AgentName, AwareTime, JsonObject, WireModel

DocumentText = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200)]
DocumentName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""A document's id, or a knowledge key."""

Arm = Literal[
    "vector",
    "text",
    "window",
    "session",
    "speaker",
    "time",
    "role",
    "typo",
    "clause",
    "expansion",
]
"""The signals that rank search results. `vector`, `text`, `typo` and `expansion` find documents; the others
only weigh them."""
ALL_ARMS: tuple[Arm, ...] = get_args(Arm)
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
"""The first four are kinds of session documents (`note` exists in both stores), the others of
knowledge."""
WritableStatus = Literal["active", "held", "retired"]
"""Statuses that a document is stored with."""
Status = Literal["active", "held", "retired", "expired", "upcoming"]
"""The stored status; `expired` and `upcoming` if its validity is over or has not begun."""
HiddenStatus = Literal["held", "retired", "expired"]
"""Statuses that a search excludes unless requested."""

MAX_DAYS_AGO = 100_000
TIME_RULE = (
    "write a date such as 2026-05-31, or a time such as 2026-05-31T14:00 (UTC without an offset)"
)
_LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class MemoryReader(WireModel):
    """Whose memory a call may read. Control sets it; without one, everything is found."""

    conversations: tuple[Label, ...] = Field(min_length=1, max_length=1_000)
    """Only documents that come from these conversations alone, and those that come from none."""
    with_older: bool = False
    """Also documents from before memory stored conversations: they belong to the home conversation's
    person."""


class EnsureSpace(WireModel):
    """Create the agent's schema and role if missing; idempotent."""

    agent_id: AgentName


def _parse_time(value: object, *, to_the_end: bool = False) -> object:
    """Parse a date as midnight UTC and a time without a zone as UTC, because models write both."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        raise PydanticCustomError("time", TIME_RULE) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # "until 31 May" includes that day.
    whole_day = to_the_end and _DATE.fullmatch(value.strip()) and moment < _LAST_DAY
    return moment + timedelta(days=1) if whole_day else moment


Since = Annotated[AwareTime, BeforeValidator(_parse_time)]
Until = Annotated[AwareTime, BeforeValidator(lambda value: _parse_time(value, to_the_end=True))]


class MemoryQuery(WireModel):
    """Search a store; `agent_id` is the caller, `target_agent` (default: the caller) is searched."""

    agent_id: AgentName
    target_agent: AgentName | None = None
    store: Literal["session", "knowledge"]
    mode: Literal["semantic", "text", "session_detail"] = "semantic"
    query: str = Field(default="", max_length=10_000)
    """If empty: with a session, it is read in order; with a grain, a time or an age, the newest
    documents are listed."""

    session_id: str | None = Field(default=None, max_length=200)
    exclude_session: str | None = Field(default=None, max_length=200)
    """All sessions but this one; only for the store `session`."""
    since: Since | None = None
    """Start of the time range (inclusive)."""
    until: Until | None = None
    """End of the time range (exclusive); a date alone includes that day."""
    min_days_ago: int | None = Field(default=None, ge=0, le=MAX_DAYS_AGO)
    max_days_ago: int | None = Field(default=None, ge=0, le=MAX_DAYS_AGO)
    """Age in days, in addition to `since` and `until`."""
    speakers: tuple[Label, ...] = Field(default=(), max_length=20)
    kinds: tuple[Kind, ...] = ()
    """Default: all, except `error` and `entity` in knowledge."""
    tiers: tuple[Tier, ...] = ()
    """Default: the tiers that the mode searches."""
    grain: Grain | None = None
    collection: str | None = Field(default=None, max_length=200)
    origins: tuple[Label, ...] = Field(default=(), max_length=20)
    min_trust: int = Field(default=0, ge=0, le=100)
    tags: JsonObject = Field(default_factory=dict)
    """Entries that the metadata must contain."""
    scopes: tuple[Label, ...] = Field(default=(), max_length=20)
    """Only documents whose metadata name one of these as `scope`, and those without a scope."""
    include: tuple[HiddenStatus, ...] = ()
    min_score: float | None = Field(default=None, ge=0, le=1)
    """Minimum score of a hit: about the share of the query's information that it matches. Default: in
    knowledge a part of the best hit's score, in sessions none; 0 returns weak hits, too."""

    limit: int | None = Field(default=None, ge=1, le=50)
    """Number of hits; 10 unless `budget_tokens` is set."""
    budget_tokens: int | None = Field(default=None, ge=50, le=100_000)
    """Limit for the hits and their context, counted as one token per three bytes."""
    after: int | None = Field(default=None, ge=0)
    """session_detail without a query: continue after this position."""
    context: bool = False
    """Return each hit's neighbours in its session: two before it and one after."""
    deadline_ms: int = Field(default=4_000, ge=10, le=9_000)
    """When it has passed, optional stages are skipped and named in `cut`."""
    arms: tuple[Arm, ...] = Field(default=ALL_ARMS, min_length=1)
    """Use only these arms."""
    expand: bool = False
    """Ask the service's language model once for related words, which the arm `expansion` adds."""
    explain: bool = False
    """Include the receipt in the response."""
    reader: MemoryReader | None = None


class ArmScore(WireModel):
    """One arm's result for a hit: rank (0: not found by it), score, and share of the total score."""

    arm: Arm
    rank: int
    score: float
    part: float = 0.0


class Neighbour(WireModel):
    """A neighbour of a hit in its session."""

    document_id: str
    position: int
    text: str
    speaker: str | None = None
    happened_at: AwareTime | None = None
    origin: str = "agent"


class MemoryHit(WireModel):
    """A matching document; hits are sorted best first."""

    document_id: str
    key: str | None
    text: str
    score: float
    relevance: float = 0.0
    """Similarity above the average of the store, and shared words; unlike the score, it can be compared
    between searches."""
    arms: tuple[ArmScore, ...]
    created_at: AwareTime
    updated_at: AwareTime
    metadata: JsonObject = Field(default_factory=dict)
    kind: Kind = "note"
    tier: Tier | None = None
    status: Status = "active"
    session_id: str | None = None
    """The session, or the collection the document is part of."""
    position: int | None = None
    speaker: str | None = None
    happened_at: AwareTime | None = None
    origin: str = "agent"
    trust: int = 50
    version: int = 1
    """Compared with `expected_version` of a write."""
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()
    """Documents that are hits themselves, or neighbours of a better hit, are not repeated."""
    truncated: bool = False
    """The text was cut to fit the token budget."""
    times: int = 1
    """Number of documents with the same text; this is the newest."""
    valid_from: AwareTime | None = None
    valid_to: AwareTime | None = None
    """When its text is or was true: from the first (inclusive) to the second (exclusive)."""
    grain: Grain | None = None
    period: str | None = None
    """Of a time summary: the period as people write it, such as 2024-W03."""
    superseded_by: tuple[str, ...] = ()
    """Ids of the documents that replace it."""


class MemoryHits(WireModel):
    """The hits and the arms used; `vector` is missing while the embedding provider is down."""

    hits: tuple[MemoryHit, ...]
    arms_used: tuple[Arm, ...]
    degraded: str | None = None
    cut: tuple[str, ...] = ()
    """Stages that were skipped because the deadline had passed."""
    receipt_id: str | None = None
    """Id of the stored record of this search."""
    receipt: JsonObject | None = None
    """That record, if the query set `explain`."""
    tokens: int = 0
    """Approximate number of tokens in the texts."""
    similar_words: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By word of the query (as a stem) that occurs nowhere in the memory: the similar words found instead."""
    added_words: tuple[str, ...] = ()
    """Words (as stems) that the language model added to the query."""
    more_after: int | None = None
    """session_detail: the position to continue after; None at the end."""


class ReadSearchReceipt(WireModel):
    """Request the record of a search in this agent's memory."""

    agent_id: AgentName
    receipt_id: str = Field(min_length=1, max_length=64)


class SearchReceipt(WireModel):
    """The record of a search: arms, figures and ids, never a text or the query."""

    receipt_id: str
    at: AwareTime
    agent_id: AgentName
    """The agent whose memory was searched."""
    asked_by: AgentName
    receipt: JsonObject


class MemoryUpsert(WireModel):
    """Change the agent's own knowledge; `call_id` is the idempotency key."""

    agent_id: AgentName
    call_id: str = Field(min_length=1, max_length=200)
    operation: Literal["insert", "update", "delete"]
    """`update` replaces or creates the document of `key`; `delete` needs `key` or `document_id`."""
    text: DocumentText | None = None
    """An `update` without a text changes only status, validity, and what the document supersedes."""
    key: Key | None = None
    document_id: str | None = None
    metadata: JsonObject = Field(default_factory=dict)
    expected_version: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Write only if the document has this version; 0: only if the key does not exist yet."""
    outside: bool = False
    """The agent had just read untrusted text from outside, so this document gets the same low trust."""
    least_trust: int | None = Field(default=None, ge=0, le=100)
    """The least trust of what the agent had read from outside: the document gets no more."""
    session_id: str | None = Field(default=None, max_length=200)
    """The session in which the agent wrote it, so that what a session wrote can be taken back."""
    conversation: Label | None = None
    """The conversation for which the agent wrote it; None: the document belongs to all."""
    reader: MemoryReader | None = None
    """Documents that it may not read cannot be changed either."""
    status: WritableStatus | None = None
    """Default: active, or unchanged if there is no text."""
    valid_from: Since | None = None
    """When the text starts to be true; unset: unchanged."""
    valid_to: Until | None = None
    """When the text stops being true; a date alone includes that day. Unset: unchanged, but a text
    written over an expired one is valid again."""
    supersedes: tuple[DocumentName, ...] = Field(default=(), max_length=20)
    """Documents of knowledge (ids or keys) that this one replaces: they end at `valid_from`, or now."""


class MemoryWritten(WireModel):
    """The result of the write; the same call_id always gets the same result."""

    document_id: str | None
    key: str | None
    operation: Literal["inserted", "updated", "deleted", "unchanged"]
    embedded: Literal["queued", "none"]
    version: int | None = None
    """The document's version, counted from 1; None after a deletion."""
    superseded: tuple[str, ...] = ()
    """Ids of the documents that this write marked as superseded."""


class EmbeddingRebuild(WireModel):
    """An embedding model whose vectors are built while another model's are still searched."""

    embedder: str
    dimensions: int
    done: int
    documents: int | None
    """Number of documents to embed; None until they are counted."""


class MemoryStatus(WireModel):
    """The state of the embedding pipeline."""

    embedder: str
    dimensions: int
    queued: int
    failed: int
    degraded: str | None = None
    limitation: str | None = None
    """Which texts this embedder does not read by meaning; None if all."""
    building: EmbeddingRebuild | None = None
