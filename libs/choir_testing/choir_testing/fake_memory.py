"""In-memory fake of the memory service, without Postgres or a model.

Used by tests of control and the agent. It passes the contract suite of the real service
(tests/contract/memory), but its search is simpler: it counts whole words.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal
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
from choir_common.wire.model import JsonObject

_TRUSTED = 50
RESERVED = frozenset({"control", "memory"})


@dataclass(frozen=True, slots=True)
class _Document:
    document_id: str
    key: str | None
    text: str
    metadata: JsonObject
    created_at: datetime
    updated_at: datetime
    version: int = 1
    trust: int = 50


@dataclass(slots=True)
class _Space:
    documents: dict[str, _Document] = field(default_factory=dict)
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
        query = MemoryQuery(agent_id=wanted.agent_id, store="knowledge", query=wanted.text)
        found = await self.query(query)
        fresh = [
            hit
            for hit in found.hits
            if hit.document_id not in wanted.known and hit.trust >= _TRUSTED
        ][:1]
        return Reminders(
            reminders=tuple(
                Reminder(
                    document_id=hit.document_id, kind=hit.kind, text=hit.text, at=hit.updated_at
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
        wanted = _words(query.query)
        scored = (
            (len(wanted & _words(document.text)) / len(wanted), document)
            for document in self._spaces[target].documents.values()
            if wanted & _words(document.text)
        )
        best = sorted(scored, key=lambda pair: -pair[0])[: query.limit or 10]
        hits = (_hit(document, score, rank) for rank, (score, document) in enumerate(best, 1))
        receipt_id = self._keep(query, target)
        return MemoryHits(hits=tuple(hits), arms_used=("text",), receipt_id=receipt_id)

    async def receipt(self, asked: ReadSearchReceipt) -> SearchReceipt:
        """Return the record of a search."""
        kept = self._space(asked.agent_id).receipts.get(asked.receipt_id)
        if kept is None:
            raise NotFound(f"There is no receipt {asked.receipt_id} of {asked.agent_id}'s memory.")
        return kept

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten:
        """Write once per call_id."""
        _check_write(write)
        space = self._space(write.agent_id)
        if (before := space.operations.get(write.call_id)) is not None:
            if before[0] != write:
                raise Conflict(
                    f"The call_id {write.call_id} was used for another write; use a fresh one."
                )
            return before[1]
        answer = self._perform(space, write)
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

    def _perform(self, space: _Space, write: MemoryUpsert) -> MemoryWritten:
        found = _find(space.documents, write)
        match write.operation:
            case "insert" if found is not None:
                raise Conflict(
                    f"The key {write.key} exists already; use update to replace its document."
                )
            case "insert":
                return self._insert(space, write)
            case "update" if found is None and write.key is not None and not write.expected_version:
                return self._insert(space, write)
        if found is None:
            raise NotFound(f"There is no document {write.key or write.document_id} in knowledge.")
        if write.expected_version not in (None, found.version):
            raise Conflict(
                f"The document is at version {found.version}, not at the expected "
                f"version {write.expected_version}."
            )
        if write.operation == "delete":
            del space.documents[found.document_id]
            return _written(found, "deleted")
        if (found.text, found.metadata) == (write.text, write.metadata):
            return _written(found, "unchanged")
        changed = replace(
            found,
            text=write.text or "",
            metadata=write.metadata,
            updated_at=self._clock.now(),
            version=found.version + 1,
            trust=_trust(write),
        )
        space.documents[found.document_id] = changed
        return _written(changed, "updated")

    def _insert(self, space: _Space, write: MemoryUpsert) -> MemoryWritten:
        now = self._clock.now()
        made = _Document(
            str(uuid4()), write.key, write.text or "", write.metadata, now, now, 1, _trust(write)
        )
        space.documents[made.document_id] = made
        return _written(made, "inserted")


def _check_query(query: MemoryQuery) -> None:
    if query.mode == "session_detail":
        if query.store != "session" or query.session_id is None:
            raise InvalidRequest("session_detail needs store session and a session_id.")
    elif not query.query.strip():
        raise InvalidRequest("The query must not be blank.")
    if query.store == "knowledge" and query.session_id is not None:
        raise InvalidRequest("Knowledge has no sessions: leave session_id out.")


def _check_write(write: MemoryUpsert) -> None:
    named = (write.key is None) != (write.document_id is None)
    if write.operation == "delete":
        if write.text is not None or write.metadata:
            raise InvalidRequest("delete takes no text and no metadata.")
    elif not (write.text or "").strip():
        raise InvalidRequest(f"{write.operation} needs a text that is not blank.")
    if write.operation == "insert" and write.document_id is not None:
        raise InvalidRequest(
            "insert assigns the document_id; to change an existing document use update."
        )
    if write.operation == "insert" and write.expected_version is not None:
        raise InvalidRequest(
            "insert creates a new document; expected_version is for update and delete."
        )
    if write.operation != "insert" and not named:
        raise InvalidRequest(f"{write.operation} needs either a key or a document_id.")


def _find(documents: Mapping[str, _Document], write: MemoryUpsert) -> _Document | None:
    if write.key is not None:
        return next((one for one in documents.values() if one.key == write.key), None)
    return documents.get(write.document_id or "")


def _written(
    document: _Document, operation: Literal["inserted", "updated", "deleted", "unchanged"]
) -> MemoryWritten:
    return MemoryWritten(
        document_id=document.document_id,
        key=document.key,
        operation=operation,
        embedded="queued" if operation in ("inserted", "updated") else "none",
        version=None if operation == "deleted" else document.version,
    )


def _trust(write: MemoryUpsert) -> int:
    return 10 if write.outside else 50


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _hit(document: _Document, score: float, rank: int) -> MemoryHit:
    return MemoryHit(
        document_id=document.document_id,
        key=document.key,
        text=document.text,
        score=score,
        arms=(ArmScore(arm="text", rank=rank, score=score),),
        created_at=document.created_at,
        updated_at=document.updated_at,
        metadata=document.metadata,
        version=document.version,
        trust=document.trust,
    )
