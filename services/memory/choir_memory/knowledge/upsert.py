"""Insert, update by key and delete an agent's knowledge, once per call_id.

Called by `endpoints`; next is `store`, then `embedding.queue_store` in the same transaction.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

import orjson

from choir_common.errors import BadInput, Conflict, NotFound
from choir_common.postgres.pool import Database
from choir_common.wire.memories import MemoryUpsert, MemoryWritten
from choir_memory.embedding.queue_store import enqueue
from choir_memory.knowledge.store import Body, KnowledgeStore
from choir_memory.schema.spaces import Spaces
from choir_memory.schema.store import as_agent, resume_service_role
from choir_memory.words.tokens import document_tokens, tsvector

MAX_METADATA = 20_000
"""Bytes of JSON; metadata describes a document and is no place for one."""
# Cutting a longer text into tokens takes milliseconds, which belong off the event loop.
LONG_TEXT = 8_000


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Writes knowledge; `announce` tells the embedding queue that there is work."""

    database: Database
    spaces: Spaces
    announce: Callable[[], None]

    async def upsert(self, write: MemoryUpsert) -> MemoryWritten:
        """Do the write, or return what the same call_id did before.

        Raises BadInput, NotFound (nothing to change) or Conflict (key taken, call_id used for
        another write).
        """
        check(write)
        await self.spaces.ensure(write.agent_id)
        body = await _body(write)
        async with as_agent(self.database, write.agent_id) as held:
            store = KnowledgeStore(held, write.agent_id)
            before = await store.claim(write.call_id, _digest(write))
            if before is not None:
                return before
            answer = await _perform(store, write, body)
            await store.record(write.call_id, answer)
            if answer.embedded == "queued" and answer.document_id is not None:
                await resume_service_role(held)
                await enqueue(held, write.agent_id, "knowledge", UUID(answer.document_id))
        if answer.embedded == "queued":
            self.announce()
        return answer


def check(write: MemoryUpsert) -> None:
    """Refuse a write whose parts do not go together; raises BadInput saying which."""
    if write.operation == "delete":
        if (write.key is None) == (write.document_id is None):
            raise BadInput("delete needs either a key or a document_id.")
        if write.text is not None or write.metadata:
            raise BadInput("delete takes no text and no metadata.")
    elif not (write.text or "").strip():
        raise BadInput(f"{write.operation} needs a text that is not blank.")
    elif write.operation == "insert" and write.document_id is not None:
        raise BadInput("insert gives the document_id; to change that document use update.")
    elif write.operation == "update" and (write.key is None) == (write.document_id is None):
        raise BadInput("update needs either a key or a document_id.")
    metadata = orjson.dumps(write.metadata)
    if len(metadata) > MAX_METADATA:
        raise BadInput(f"metadata is larger than {MAX_METADATA} bytes.")
    plain = (write.text or "", write.key or "", write.call_id)
    if any("\x00" in part for part in plain) or b"\\u0000" in metadata:
        raise BadInput("The NUL character cannot be stored.")


async def _perform(store: KnowledgeStore, write: MemoryUpsert, body: Body) -> MemoryWritten:
    match write.operation:
        case "insert":
            return await _insert(store, write.key, body)
        case "update":
            return await _update(store, write, body)
        case "delete":
            return await _delete(store, write, body)


async def _insert(store: KnowledgeStore, key: str | None, body: Body) -> MemoryWritten:
    document_id = uuid4()
    if not await store.insert(document_id, key, body):
        raise Conflict(f"There is knowledge under the key {key}; use update to replace it.")
    return _written(document_id, key, "inserted")


async def _update(store: KnowledgeStore, write: MemoryUpsert, body: Body) -> MemoryWritten:
    wanted = _document_id(write)
    found = await store.find(write.key, wanted, body)
    if found is None and write.key is not None:
        document_id = uuid4()
        if await store.insert(document_id, write.key, body):
            return _written(document_id, write.key, "inserted")
        found = await store.find(write.key, None, body)  # somebody was faster
    if found is None:
        raise NotFound(f"There is no knowledge {write.key or write.document_id}.")
    if found.same_text and found.same_metadata:
        return _written(found.document_id, found.key, "unchanged")
    await store.replace(found.document_id, body)
    return _written(found.document_id, found.key, "updated")


async def _delete(store: KnowledgeStore, write: MemoryUpsert, body: Body) -> MemoryWritten:
    found = await store.find(write.key, _document_id(write), body)
    if found is None:
        raise NotFound(f"There is no knowledge {write.key or write.document_id}.")
    await store.delete(found.document_id)
    return _written(found.document_id, found.key, "deleted")


def _written(
    document_id: UUID,
    key: str | None,
    operation: Literal["inserted", "updated", "deleted", "unchanged"],
) -> MemoryWritten:
    return MemoryWritten(
        document_id=str(document_id),
        key=key,
        operation=operation,
        embedded="queued" if operation in ("inserted", "updated") else "none",
    )


def _document_id(write: MemoryUpsert) -> UUID | None:
    if write.document_id is None:
        return None
    try:
        return UUID(write.document_id)
    except ValueError:
        raise NotFound(f"There is no knowledge {write.document_id}.") from None


async def _body(write: MemoryUpsert) -> Body:
    text = write.text or ""
    cut = document_tokens
    tokens = await asyncio.to_thread(cut, text) if len(text) > LONG_TEXT else cut(text)
    metadata = orjson.dumps(write.metadata).decode()
    return Body(text, tsvector(tokens), len(tokens), metadata)


def _digest(write: MemoryUpsert) -> str:
    content = write.model_dump(mode="json", exclude={"call_id"})
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
