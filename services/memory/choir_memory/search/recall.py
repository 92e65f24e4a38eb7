"""Answer a memory query: ask the arms, fuse them, read the documents.

Called by `endpoints`; next are the `*_store` of each arm and `embedding.guard` for the query's vector. The
vector is made while full text is searched; when it does not come in time the query goes on without.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import structlog

from choir_common.errors import BadInput, ChoirError
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memories import ArmScore, MemoryHit, MemoryHits, MemoryQuery
from choir_memory.embedding.guard import EmbedderGuard
from choir_memory.embedding.port import render
from choir_memory.schema.spaces import Spaces
from choir_memory.schema.store import as_agent, as_reader
from choir_memory.search.fuse import Arm, Fused, fuse
from choir_memory.search.read_store import Stored, in_order, read
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import Scored
from choir_memory.search.text_arm_store import text_arm
from choir_memory.search.vector_arm_store import vector_arm
from choir_memory.words.tokens import query_terms

log = structlog.get_logger("choir.memory.recall")

SEARCHED_TIERS = ("mid_term", "long_term_summary")
DETAIL_TIERS = ("mid_term", "long_term_detail")
MAX_QUERY_TERMS = 64
"""Terms looked up to find the rarest; of a pasted page the longest words say most."""


@dataclass(frozen=True, slots=True)
class _Vector:
    """The query's vector, or why there is none."""

    text: str | None
    missing: str | None


@dataclass(frozen=True, slots=True)
class Recall:
    """Searches an agent's stores."""

    database: Database
    spaces: Spaces
    guard: EmbedderGuard

    async def query(self, query: MemoryQuery) -> MemoryHits:
        """Return the best hits; raises BadInput or, for another agent, NotFound."""
        check(query)
        target = query.target_agent or query.agent_id
        if target == query.agent_id:
            await self.spaces.ensure(target)
        else:
            await self.spaces.require(target)
            log.info("cross-agent read", agent_id=query.agent_id, target_agent=target)
        scope = _scope(query, target)
        if query.mode == "session_detail" and not query.query.strip():
            return await self._in_order(query, scope)
        return await self._search(query, scope)

    async def _in_order(self, query: MemoryQuery, scope: Scope) -> MemoryHits:
        async with self._reading(query, scope) as held:
            found = await in_order(held, scope, query.limit)
            stored = await read(held, scope, found)
        hits = (_hit(stored[one], Fused(one, 0.0, {})) for one in found if one in stored)
        return MemoryHits(hits=tuple(hits), arms_used=())

    async def _search(self, query: MemoryQuery, scope: Scope) -> MemoryHits:
        vector, text = await self._prepare(query, scope)
        lists: dict[Arm, Sequence[Scored]] = {"text": text}
        async with self._reading(query, scope) as held:
            if vector.text is not None:
                lists["vector"] = await vector_arm(
                    held, scope, vector.text, [one.document_id for one in text]
                )
            fused = fuse(lists, query.limit)
            stored = await read(held, scope, [one.document_id for one in fused])
        return MemoryHits(
            hits=tuple(_hit(stored[f.document_id], f) for f in fused if f.document_id in stored),
            arms_used=tuple(sorted(lists)),
            degraded=vector.missing,
        )

    async def _prepare(self, query: MemoryQuery, scope: Scope) -> tuple[_Vector, list[Scored]]:
        try:
            async with asyncio.TaskGroup() as tasks:
                vector = tasks.create_task(self._vector(query))
                text = tasks.create_task(self._text_arm(query, scope))
        except ExceptionGroup as group:
            raise group.exceptions[0] from group  # the door knows single errors
        return vector.result(), text.result()

    async def _text_arm(self, query: MemoryQuery, scope: Scope) -> list[Scored]:
        terms = sorted(query_terms(query.query), key=len, reverse=True)[:MAX_QUERY_TERMS]
        if not terms:
            return []
        async with self._reading(query, scope) as held:
            return await text_arm(held, scope, terms)

    async def _vector(self, query: MemoryQuery) -> _Vector:
        if query.mode != "semantic":
            return _Vector(None, None)
        try:
            return _Vector(render(await self.guard.embed_query(query.query)), None)
        except ChoirError as error:
            return _Vector(None, f"Searched by full text alone: {error.message}")

    @contextlib.asynccontextmanager
    async def _reading(self, query: MemoryQuery, scope: Scope) -> AsyncIterator[Connection]:
        own = scope.agent_id == query.agent_id
        lent: AbstractAsyncContextManager[Connection] = (
            as_agent(self.database, scope.agent_id) if own else as_reader(self.database)
        )
        async with lent as held:
            yield held


def check(query: MemoryQuery) -> None:
    """Refuse a query whose parts do not go together; raises BadInput saying which."""
    if query.mode == "session_detail":
        if query.store != "session" or query.session_id is None:
            raise BadInput(
                "session_detail searches one session: it needs store session and a session_id."
            )
    elif not query.query.strip():
        raise BadInput("The query is blank.")
    if query.store == "knowledge" and query.session_id is not None:
        raise BadInput("Knowledge belongs to no session: leave session_id out.")
    if "\x00" in query.query or "\x00" in (query.session_id or ""):
        raise BadInput("The NUL character cannot be searched for.")


def _scope(query: MemoryQuery, target: str) -> Scope:
    if query.store == "knowledge":
        return Scope(target, "knowledge")
    tiers = DETAIL_TIERS if query.mode == "session_detail" else SEARCHED_TIERS
    return Scope(target, "session", tiers, query.session_id)


def _hit(stored: Stored, fused: Fused) -> MemoryHit:
    return MemoryHit(
        document_id=str(stored.document_id),
        key=stored.key,
        text=stored.text,
        score=round(fused.score, 6),
        arms=tuple(
            ArmScore(arm=arm, rank=one.rank, score=round(one.score, 6))
            for arm, one in sorted(fused.arms.items())
        ),
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        metadata=stored.metadata,
    )
