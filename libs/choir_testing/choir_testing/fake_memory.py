"""In-memory fake of the memory service, without Postgres or a model.

Used by tests of control and the agent. It passes the contract suite of the real service
(tests/contract/memory), but its search is simpler: it counts whole words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from choir_common.clock import Clock, SystemClock
from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.wire.memory_collections import Collections, ListCollections
from choir_common.wire.memory_recall import (
    ReadHints,
    ReadReminders,
    Reminder,
    Reminders,
    ToolHints,
)
from choir_common.wire.memory_search import (
    Arm,
    ArmScore,
    EnsureSpace,
    MemoryHit,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    MemoryWritten,
    ReadSearchReceipt,
    SearchReceipt,
)
from choir_testing.fake_knowledge import FakeDocument, FakeKnowledge, check_write, contains

_TRUSTED = 50
RESERVED = frozenset({"control", "memory"})


@dataclass(slots=True)
class _Space:
    knowledge: FakeKnowledge = field(default_factory=FakeKnowledge)
    operations: dict[str, tuple[MemoryUpsert, MemoryWritten]] = field(default_factory=dict)
    receipts: dict[str, SearchReceipt] = field(default_factory=dict)


class FakeMemory:
    """Knowledge of any number of agents; session memory is always empty."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._spaces: dict[str, _Space] = {}

    async def ensure(self, space: EnsureSpace) -> None:
        """Create the agent's space if it is missing."""
        self._space(space.agent_id)

    async def hints(self, wanted: ReadHints) -> ToolHints:
        """Return no hints, since session memory is always empty."""
        self._space(wanted.agent_id)
        return ToolHints(hints=())

    async def collections(self, asked: ListCollections) -> Collections:
        """Return no collections."""
        self._space(asked.agent_id)
        return Collections(collections=())

    async def remind(self, wanted: ReadReminders) -> Reminders:
        """Return the best knowledge document that is not known yet, if any."""
        query = MemoryQuery(
            agent_id=wanted.agent_id,
            store="knowledge",
            query=wanted.text,
            scopes=wanted.scopes,
            tags=wanted.tags,
        )
        found = await self.query(query)
        fresh = [
            hit
            for hit in found.hits
            if hit.document_id not in wanted.known and hit.trust >= _TRUSTED
        ][:1]
        return Reminders(
            reminders=tuple(
                Reminder(
                    document_id=hit.document_id,
                    kind=hit.kind,
                    text=hit.text,
                    at=hit.updated_at,
                    valid_from=hit.valid_from if hit.status == "upcoming" else None,
                    valid_to=hit.valid_to,
                )
                for hit in fresh
            ),
            receipts=(found.receipt_id,) if found.receipt_id else (),
        )

    async def query(self, query: MemoryQuery) -> MemoryHits:
        """Rank documents by how many of the query's words they contain."""
        _check_query(query)
        target = query.target_agent or query.agent_id
        if target == query.agent_id:
            self._space(target)
        elif target not in self._spaces:
            raise NotFound(f"There is no memory for the agent {target}.")
        if query.store == "session":
            return MemoryHits(hits=(), arms_used=("text",), receipt_id=self._keep(query, target))
        best = self._rank(query, target)[: query.limit or 10]
        now = self._clock.now()
        hits = (_hit(document, score, rank, now) for rank, (score, document) in enumerate(best, 1))
        receipt_id = self._keep(query, target)
        arms: tuple[Arm, ...] = ("text",) if query.query.strip() else ()
        return MemoryHits(hits=tuple(hits), arms_used=arms, receipt_id=receipt_id)

    def _rank(self, query: MemoryQuery, target: str) -> Sequence[tuple[float, FakeDocument]]:
        """Return the documents that match, best first; without words, newest first."""
        now, wanted = self._clock.now(), _words(query.query)
        documents = self._spaces[target].knowledge.documents.values()
        fitting = [document for document in documents if _matches(query, document, now)]
        if not query.query.strip():
            newest = sorted(fitting, key=_written_at, reverse=True)
            return [(0.0, document) for document in newest]
        scored = (
            (len(wanted & _words(document.text)) / len(wanted), document)
            for document in fitting
            if wanted & _words(document.text)
        )
        best = sorted(scored, key=lambda pair: -pair[0])
        return [pair for pair in best if query.min_score is None or pair[0] >= query.min_score]

    async def receipt(self, asked: ReadSearchReceipt) -> SearchReceipt:
        """Return the record of a search."""
        kept = self._space(asked.agent_id).receipts.get(asked.receipt_id)
        if kept is None:
            raise NotFound(f"There is no receipt {asked.receipt_id} of {asked.agent_id}'s memory.")
        return kept

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten:
        """Write once per call_id."""
        check_write(write)
        space = self._space(write.agent_id)
        if (before := space.operations.get(write.call_id)) is not None:
            if before[0] != write:
                raise Conflict(
                    f"The call_id {write.call_id} was used for another write; use a fresh one."
                )
            return before[1]
        answer = space.knowledge.write(write, self._clock.now())
        space.operations[write.call_id] = (write, answer)
        return answer

    async def status(self) -> MemoryStatus:
        """Return a status with an empty queue."""
        return MemoryStatus(embedder="fake", dimensions=0, queued=0, failed=0)

    def _keep(self, query: MemoryQuery, target: str) -> str:
        kept = SearchReceipt(
            receipt_id=str(uuid4()),
            at=self._clock.now(),
            agent_id=target,
            asked_by=query.agent_id,
            receipt={"store": query.store, "mode": query.mode},
        )
        self._space(target).receipts[kept.receipt_id] = kept
        return kept.receipt_id

    def _space(self, agent_id: str) -> _Space:
        if agent_id in RESERVED:
            raise InvalidRequest(
                f"The agent id {agent_id} is reserved: Choir has its own tables in that schema."
            )
        return self._spaces.setdefault(agent_id, _Space())


def _check_query(query: MemoryQuery) -> None:
    if query.mode == "session_detail":
        if query.store != "session" or query.session_id is None:
            raise InvalidRequest("session_detail needs store session and a session_id.")
    elif not query.query.strip():
        times = (query.since, query.until, query.min_days_ago, query.max_days_ago)
        if query.grain is None and all(limit is None for limit in times):
            raise InvalidRequest("The query must not be blank, unless it lists a grain or a time.")
    if query.min_score is not None and not query.query.strip():
        raise InvalidRequest("`min_score` requires a query: without one there are no scores.")
    ages = (query.min_days_ago, query.max_days_ago)
    if ages[0] is not None and ages[1] is not None and ages[0] >= ages[1]:
        raise InvalidRequest("`min_days_ago` is not less than `max_days_ago`.")
    if query.since and query.until and query.since >= query.until:
        raise InvalidRequest("`since` is not before `until`.")
    if query.store == "knowledge" and (query.session_id or query.grain):
        raise InvalidRequest("Knowledge has no sessions and no grains: set store to session.")


def _matches(query: MemoryQuery, document: FakeDocument, now: datetime) -> bool:
    """Return whether a document passes the filters of a query."""
    since, until, at = query.since, query.until, _written_at(document)
    oldest, newest = query.max_days_ago, query.min_days_ago
    scope = document.metadata.get("scope")
    return (
        document.status(now) in ("active", "upcoming", *query.include)
        and contains(document.metadata, query.tags)
        and (not query.scopes or scope is None or scope in query.scopes)
        and (not query.kinds or "note" in query.kinds)
        and document.trust >= query.min_trust
        and (since is None or at >= since)
        and (until is None or at < until)
        and (oldest is None or at >= now - timedelta(days=oldest))
        and (not newest or at < now - timedelta(days=newest))
    )


def _written_at(document: FakeDocument) -> datetime:
    return document.valid_from or document.created_at


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _hit(document: FakeDocument, score: float, rank: int, now: datetime) -> MemoryHit:
    return MemoryHit(
        document_id=document.document_id,
        key=document.key,
        text=document.text,
        score=score,
        arms=(ArmScore(arm="text", rank=rank, score=score),) if score else (),
        created_at=document.created_at,
        updated_at=document.updated_at,
        metadata=document.metadata,
        version=document.version,
        trust=document.trust,
        status=document.status(now),
        valid_from=document.valid_from,
        valid_to=document.valid_to,
        superseded_by=document.superseded_by,
    )
