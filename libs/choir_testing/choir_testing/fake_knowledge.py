"""One agent's knowledge for `FakeMemory`: keys, versions, status, validity, and what supersedes what."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal
from uuid import uuid4

from choir_common.errors import Conflict, Forbidden, InvalidRequest, NotFound
from choir_common.wire.memory_search import MemoryUpsert, MemoryWritten, Status, WritableStatus
from choir_common.wire.model import JsonObject

OUTSIDE_TRUST = 10
AGENT_TRUST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeDocument:
    """A document of knowledge."""

    document_id: str
    key: str | None
    text: str
    metadata: JsonObject
    created_at: datetime
    updated_at: datetime
    version: int = 1
    trust: int = AGENT_TRUST
    stored_status: WritableStatus = "active"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    superseded_by: tuple[str, ...] = ()
    before_superseded: tuple[WritableStatus, datetime | None] = ("active", None)
    """Status and end before a successor ended it."""

    def status(self, now: datetime) -> Status:
        """Return the status as answers show it."""
        if self.stored_status == "retired":
            return "retired"
        if self.valid_to is not None and self.valid_to <= now:
            return "expired"
        if self.stored_status == "active" and self.valid_from and self.valid_from > now:
            return "upcoming"
        return self.stored_status


@dataclass(slots=True)
class FakeKnowledge:
    """The documents of one agent."""

    documents: dict[str, FakeDocument] = field(default_factory=dict)

    def write(self, write: MemoryUpsert, now: datetime) -> MemoryWritten:
        """Execute a write completely, or raise and change nothing."""
        before = dict(self.documents)
        try:
            return self._supersede(write, self._perform(write, now), now)
        except Exception:
            self.documents = before
            raise

    def _perform(self, write: MemoryUpsert, now: datetime) -> MemoryWritten:
        found = self._find(write)
        match write.operation:
            case "insert" if found is not None:
                raise Conflict(
                    f"The key {write.key} exists already; use update to replace its document."
                )
            case "insert":
                return self._insert(write, now)
            case "update" if found is None and write.key and write.text:
                if not write.expected_version:
                    return self._insert(write, now)
        if found is None:
            raise NotFound(f"There is no document {write.key or write.document_id} in knowledge.")
        if write.expected_version not in (None, found.version):
            raise Conflict(
                f"The document is at version {found.version}, not at the expected "
                f"version {write.expected_version}."
            )
        if write.operation == "delete":
            _check_trust(write, found)
            self._delete(found)
            return _written(found, "deleted")
        return self._update(write, found, now)

    def _insert(self, write: MemoryUpsert, now: datetime) -> MemoryWritten:
        made = FakeDocument(
            document_id=str(uuid4()),
            key=write.key,
            text=write.text or "",
            metadata=write.metadata,
            created_at=now,
            updated_at=now,
            trust=_trust(write),
            stored_status=write.status or "active",
            valid_from=write.valid_from,
            valid_to=write.valid_to,
        )
        self.documents[made.document_id] = made
        return _written(made, "inserted")

    def _update(self, write: MemoryUpsert, found: FakeDocument, now: datetime) -> MemoryWritten:
        if write.text is not None and _is_same(write, found, now):
            return _written(found, "unchanged")
        limits = (write.valid_from, write.valid_to)
        is_rewrite = write.text is not None and write.status in (None, "active") and not any(limits)
        _check_trust(write, found, rewritten=is_rewrite)
        is_current = write.text is not None or bool(write.supersedes)
        status = write.status or ("active" if is_current else found.stored_status)
        changed = replace(
            found,
            updated_at=now,
            version=found.version + 1,
            stored_status=status,
            valid_from=write.valid_from or found.valid_from,
            valid_to=write.valid_to
            or (None if status == "active" and _is_over(found, now) else found.valid_to),
        )
        if status == "active" and found.status(now) in ("retired", "expired"):
            changed = replace(changed, superseded_by=())
        if write.text is not None:
            changed = replace(
                changed, text=write.text, metadata=write.metadata, trust=_trust(write)
            )
        start, end = changed.valid_from, changed.valid_to
        if start and end and start > end:
            raise InvalidRequest("The validity would end before it starts.")
        self.documents[found.document_id] = changed
        return _written(changed, "updated")

    def _supersede(
        self, write: MemoryUpsert, answer: MemoryWritten, now: datetime
    ) -> MemoryWritten:
        ended: list[str] = []
        for old in [self._named(name, answer.document_id) for name in write.supersedes]:
            _check_trust(write, old)
            if answer.document_id is None or answer.document_id in old.superseded_by:
                continue
            ended.append(old.document_id)
            self.documents[old.document_id] = _ended(old, answer.document_id, write, now)
        if not ended:
            return answer
        if answer.operation == "unchanged":
            answer = answer.model_copy(update={"operation": "updated", "embedded": "queued"})
        return answer.model_copy(update={"superseded": tuple(ended)})

    def _named(self, name: str, successor_id: str | None) -> FakeDocument:
        old = self.documents.get(name) or self._by_key(name)
        if old is None:
            raise NotFound(f"There is no document {name} in knowledge to supersede.")
        if old.document_id == successor_id:
            raise InvalidRequest(f"The document {name} cannot supersede itself.")
        return old

    def _delete(self, found: FakeDocument) -> None:
        """Delete a document; what it alone superseded is valid again."""
        del self.documents[found.document_id]
        for old in self._superseded_by(found.document_id):
            rest = tuple(one for one in old.superseded_by if one != found.document_id)
            changed = replace(old, superseded_by=rest)
            if not rest:
                status, valid_to = old.before_superseded
                changed = replace(changed, stored_status=status, valid_to=valid_to)
            self.documents[old.document_id] = changed

    def _superseded_by(self, document_id: str) -> Iterator[FakeDocument]:
        return (one for one in [*self.documents.values()] if document_id in one.superseded_by)

    def _find(self, write: MemoryUpsert) -> FakeDocument | None:
        if write.key is not None:
            return self._by_key(write.key)
        return self.documents.get(write.document_id or "")

    def _by_key(self, key: str) -> FakeDocument | None:
        return next((one for one in self.documents.values() if one.key == key), None)


def check_write(write: MemoryUpsert) -> None:
    """Validate the combination of fields; raises InvalidRequest."""
    named = (write.key is None) != (write.document_id is None)
    sets_validity = bool(write.status or write.valid_from or write.valid_to or write.supersedes)
    if write.operation == "delete":
        if write.text is not None or write.metadata or sets_validity:
            raise InvalidRequest("delete takes no text, no metadata, no status and no validity.")
    elif write.operation == "update" and write.text is None and sets_validity:
        if write.metadata:
            raise InvalidRequest("metadata is replaced together with the text: give both.")
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
    if write.supersedes and write.status not in (None, "active"):
        raise InvalidRequest("Only an active document can supersede others.")
    if write.valid_from and write.valid_to and write.valid_from >= write.valid_to:
        raise InvalidRequest("The validity would end before it starts.")


def _is_same(write: MemoryUpsert, found: FakeDocument, now: datetime) -> bool:
    return (
        (found.text, found.metadata) == (write.text, write.metadata)
        and found.trust >= _trust(write)
        and found.stored_status == (write.status or "active")
        and found.status(now) not in ("expired", "retired")
        and write.valid_from in (None, found.valid_from)
        and write.valid_to in (None, found.valid_to)
    )


def _is_over(found: FakeDocument, now: datetime) -> bool:
    """Return whether the validity has ended, or ends before it starts."""
    return found.valid_to is not None and found.valid_to <= max(now, found.valid_from or now)


def _check_trust(write: MemoryUpsert, found: FakeDocument, *, rewritten: bool = False) -> None:
    most = AGENT_TRUST if rewritten else OUTSIDE_TRUST
    if write.outside and found.trust > most:
        raise Forbidden(
            f"The document {found.key or found.document_id} has trust {found.trust}, more than text from "
            "outside."
        )


def _ended(
    old: FakeDocument, successor_id: str, write: MemoryUpsert, now: datetime
) -> FakeDocument:
    changed = replace(old, superseded_by=(*old.superseded_by, successor_id))
    if old.stored_status == "retired":
        return changed
    end = write.valid_from or now
    if old.valid_from is not None:
        end = max(end, old.valid_from)
    if old.valid_to is not None:
        end = min(end, old.valid_to)
    if not old.superseded_by:
        changed = replace(changed, before_superseded=(old.stored_status, old.valid_to))
    later = write.valid_from is not None and write.valid_from > now
    return replace(
        changed,
        stored_status=old.stored_status if later else "retired",
        valid_to=end,
        version=old.version + 1,
        updated_at=now,
    )


def _written(
    document: FakeDocument, operation: Literal["inserted", "updated", "deleted", "unchanged"]
) -> MemoryWritten:
    return MemoryWritten(
        document_id=document.document_id,
        key=document.key,
        operation=operation,
        embedded="queued" if operation in ("inserted", "updated") else "none",
        version=None if operation == "deleted" else document.version,
    )


def _trust(write: MemoryUpsert) -> int:
    return OUTSIDE_TRUST if write.outside else AGENT_TRUST


def contains(metadata: Mapping[str, object], tags: Mapping[str, object]) -> bool:
    """Return whether the metadata contain these entries."""
    return all(metadata.get(name) == value for name, value in tags.items())
