"""Insert, update by key and delete an agent's knowledge, once per call_id.

The document, its embedding job, the erasure of what depends on it and the audit record are one
transaction.
"""

import asyncio
import hashlib
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID, uuid4

import orjson

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_search import MemoryUpsert, MemoryWritten
from choir_common.wire.model import JsonObject
from choir_memory.audit.store import AuditRecord, actor_name, write_record
from choir_memory.documents.erase_store import erase_documents, erase_references
from choir_memory.documents.model import TRUST, Origin, is_readable
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue
from choir_memory.knowledge.store import (
    DocumentContent,
    KnowledgeStore,
    LockedDocument,
    parse_id,
)
from choir_memory.knowledge.validity import (
    WriteResult,
    check_order,
    check_trust,
    is_rewrite,
    requested_validity,
    sets_validity,
    supersede,
    validate_validity,
)
from choir_memory.schema.store import SpaceRegistry, agent_transaction, resume_service_role
from choir_memory.text.tokens import document_tokens, tsvector

MAX_METADATA = 20_000
"""Bytes of JSON; metadata describes a document and must not contain one."""
# Characters; tokenizing a longer text takes milliseconds, so it runs in a thread.
LONG_TEXT = 8_000


@dataclass(frozen=True, slots=True)
class Writer:
    """The author of a write: name in the audit log, and origin, which determines the trust."""

    actor: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class KnowledgeService:
    """Writer of knowledge; `queue` is told how many documents were queued."""

    database: Database
    spaces: SpaceRegistry
    queue: EmbeddingQueue

    async def upsert(self, write: MemoryUpsert, writer: Writer | None = None) -> MemoryWritten:
        """Execute the write, or return the stored answer of its call_id; the default writer is the agent.

        Raises InvalidRequest, NotFound (nothing to change), Conflict (key taken, version differs, or
        call_id used for another write), or Forbidden (`check_trust`).
        """
        validate_write(write)
        await self.spaces.ensure(write.agent_id)
        writer = writer or Writer(actor_name(write.agent_id), "agent")
        body = await _body(write, writer)
        async with agent_transaction(self.database, write.agent_id) as connection:
            store = KnowledgeStore(connection, write.agent_id)
            # in the transaction of the write: after a crash neither of them exists
            stored_answer = await store.claim_call(write.call_id, _digest(write))
            if stored_answer is not None:
                return _with_key(stored_answer, write)
            result = await _perform(connection, store, write, body)
            result = await supersede(store, write, result)
            await store.store_answer(write.call_id, _as_recorded(result.answer))
            await resume_service_role(connection)
            await _follow_up(connection, write, writer, result)
        # after the commit: the worker could not see the job before
        if result.answer.embedded == "queued":
            self.queue.notify()
        return result.answer


async def _follow_up(
    connection: Connection, write: MemoryUpsert, writer: Writer, result: WriteResult
) -> None:
    """Update queue, receipts and audit log, which need the service's role, in the transaction of the
    write."""
    answer = result.answer
    if answer.operation == "unchanged":
        return
    if answer.operation == "deleted":
        await erase_references(connection, write.agent_id, result.changed_ids)
    else:
        # superseded ones, too: a vector being computed is stored only for the current version
        for document_id in (*result.changed_ids, *result.superseded_ids):
            await enqueue(connection, write.agent_id, "knowledge", document_id)
    detail: JsonObject = {"version": answer.version} if answer.version is not None else {}
    if write.session_id is not None:
        detail["session"] = write.session_id
    if write.operation == "update" and write.text is None:
        detail["validity"] = True  # the text is from an earlier write
    entry = AuditRecord(write.agent_id, writer.actor, answer.operation, result.changed_ids, detail)
    await write_record(connection, entry)
    if result.superseded_ids:
        entry = AuditRecord(write.agent_id, writer.actor, "superseded", result.superseded_ids)
        await write_record(connection, entry)


def _as_recorded(answer: MemoryWritten) -> MemoryWritten:
    """Return the answer to store; the key of a deleted document is removed from it."""
    return answer.model_copy(update={"key": None}) if answer.operation == "deleted" else answer


def _with_key(answer: MemoryWritten, write: MemoryUpsert) -> MemoryWritten:
    return answer.model_copy(update={"key": answer.key or write.key})


def validate_write(write: MemoryUpsert) -> None:
    """Validate the combination of fields; raises InvalidRequest naming the fault."""
    if write.operation == "delete":
        if (write.key is None) == (write.document_id is None):
            raise InvalidRequest(_("delete needs either a key or a document_id."))
        if write.text is not None or write.metadata:
            raise InvalidRequest(_("delete takes no text and no metadata."))
    elif write.operation == "update" and write.text is None and sets_validity(write):
        if write.metadata:
            raise InvalidRequest(_("metadata is replaced together with the text: give both."))
    elif not (write.text or "").strip():
        others = ", or a status, valid_from, valid_to or supersedes to change"
        more = others if write.operation == "update" and write.text is None else ""
        raise InvalidRequest(
            _("{operation} needs a text that is not blank{more}.").format(
                operation=write.operation, more=more
            )
        )
    elif write.operation == "insert" and write.document_id is not None:
        raise InvalidRequest(
            _("insert assigns the document_id; to change an existing document use update.")
        )
    if write.operation == "update" and (write.key is None) == (write.document_id is None):
        raise InvalidRequest(_("update needs either a key or a document_id."))
    if write.expected_version is not None:
        if write.operation == "insert":
            raise InvalidRequest(
                _("insert creates a new document; expected_version is for update and delete.")
            )
        if write.expected_version == 0 and (write.operation == "delete" or write.key is None):
            raise InvalidRequest(
                _(
                    "expected_version 0 means that the key must not exist yet: use update with a key."
                )
            )
    validate_validity(write)
    metadata = orjson.dumps(write.metadata)
    if len(metadata) > MAX_METADATA:
        raise InvalidRequest(
            _("metadata is larger than {max_metadata} bytes.").format(max_metadata=MAX_METADATA)
        )
    plain = (write.text or "", write.key or "", write.call_id, *write.supersedes)
    if any("\x00" in part for part in plain) or b"\\u0000" in metadata:
        raise InvalidRequest(_("The NUL character cannot be stored."))


async def _perform(
    connection: Connection, store: KnowledgeStore, write: MemoryUpsert, body: DocumentContent
) -> WriteResult:
    match write.operation:
        case "insert":
            return await _insert(store, write.key, body)
        case "update":
            return await _update(store, write, body)
        case "delete":
            return await _delete(connection, store, write, body)


async def _insert(store: KnowledgeStore, key: str | None, body: DocumentContent) -> WriteResult:
    document_id = uuid4()
    if not await store.insert(document_id, key, body):
        raise Conflict(
            _("The key {key} exists already; use update to replace its document.").format(key=key)
        )
    return _done(document_id, key, "inserted", 1)


async def _update(store: KnowledgeStore, write: MemoryUpsert, body: DocumentContent) -> WriteResult:
    requested_id = _document_id(write)
    document = await _find(store, write, requested_id, body)
    may_insert = write.text is not None and not write.expected_version
    if document is None and write.key is not None and may_insert:
        document_id = uuid4()
        if await store.insert(document_id, write.key, body):
            return _done(document_id, write.key, "inserted", 1)
        document = await _find(store, write, None, body)  # a concurrent call inserted it first
    document = _as_expected(write, document)
    if document.same and write.text is not None:
        return _done(document.document_id, document.key, "unchanged", document.version)
    name = document.key or str(document.document_id)
    check_trust(write, name, document.trust, rewritten=is_rewrite(write))
    if write.text is None:
        validity = await store.set_validity(document.document_id, body.validity)
    else:
        validity = await store.replace(document.document_id, body)
    return _done(document.document_id, document.key, "updated", check_order(validity).version)


async def _delete(
    connection: Connection, store: KnowledgeStore, write: MemoryUpsert, body: DocumentContent
) -> WriteResult:
    document = _as_expected(write, await _find(store, write, _document_id(write), body))
    check_trust(write, document.key or str(document.document_id), document.trust)
    erased = await erase_documents(connection, write.agent_id, (document.document_id,))
    return replace(
        _done(document.document_id, document.key, "deleted", None), changed_ids=erased.ids
    )


async def _find(
    store: KnowledgeStore, write: MemoryUpsert, document_id: UUID | None, body: DocumentContent
) -> LockedDocument | None:
    """Return and lock the document that a write names, or None.

    Raises Conflict if it is another person's: its key is taken, but nothing of it is told.
    """
    document = await store.find(write.key, document_id, body)
    if document is None or is_readable(write.reader, document.conversations):
        return document
    if write.key is None:
        return None
    raise Conflict(
        _(
            "The key {key} is in use in a conversation of another person; choose another one."
        ).format(key=write.key)
    )


def _as_expected(write: MemoryUpsert, document: LockedDocument | None) -> LockedDocument:
    """Return the document found; raises NotFound, or Conflict naming both versions."""
    name = write.key or write.document_id
    expected = write.expected_version
    if document is None:
        was = f" (you expect version {expected})" if expected else ""
        raise NotFound(
            _("There is no document {name}{was} in knowledge.").format(name=name, was=was)
        )
    if expected is not None and expected != document.version:
        expectation = (
            "but should not exist yet"
            if expected == 0
            else f"not at the expected version {expected}"
        )
        raise Conflict(
            _(
                "The document {name} is at version {version}, {expectation}. Nothing was changed: read "
                "it again and apply your change to the current text."
            ).format(name=name, version=document.version, expectation=expectation)
        )
    return document


def _done(
    document_id: UUID,
    key: str | None,
    operation: Literal["inserted", "updated", "deleted", "unchanged"],
    version: int | None,
) -> WriteResult:
    answer = MemoryWritten(
        document_id=str(document_id),
        key=key,
        operation=operation,
        embedded="queued" if operation in ("inserted", "updated") else "none",
        version=version,
    )
    return WriteResult(answer, (document_id,))


def _document_id(write: MemoryUpsert) -> UUID | None:
    if write.document_id is None:
        return None
    document_id = parse_id(write.document_id)
    if document_id is None:
        raise NotFound(
            _("There is no document {document_id} in knowledge.").format(
                document_id=write.document_id
            )
        )
    return document_id


async def _body(write: MemoryUpsert, writer: Writer) -> DocumentContent:
    text = write.text or ""
    tokenize = document_tokens
    tokens = await asyncio.to_thread(tokenize, text) if len(text) > LONG_TEXT else tokenize(text)
    metadata = orjson.dumps(write.metadata).decode()
    limits = [TRUST["web"]] if write.outside else []
    limits += [write.least_trust] if write.least_trust is not None else []
    trust = min([TRUST[writer.origin], *limits])
    return DocumentContent(
        *(text, tsvector(tokens), len(tokens), metadata, writer.origin, trust),
        requested_validity(write),
        () if write.conversation is None else (write.conversation,),
    )


def _digest(write: MemoryUpsert) -> str:
    content = write.model_dump(
        mode="json", exclude={"call_id", "session_id", "conversation", "reader"}
    )
    # fields added later are left out when unset, so that digests stored by older versions still match
    for name in ("expected_version", "least_trust"):
        if content[name] is None:
            del content[name]
    for name in ("outside", "status", "valid_from", "valid_to", "supersedes"):
        if not content[name]:
            del content[name]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
