"""Execute a memory query: find and rank candidates, read the best ones, queue a receipt.

The query vector is computed first, while no database connection is in use; if it is late, the query
continues without it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import orjson
import structlog

from choir_common.clock import Clock
from choir_common.errors import ChoirError, NotFound
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_search import (
    MemoryHits,
    MemoryQuery,
    ReadSearchReceipt,
    SearchReceipt,
)
from choir_common.wire.model import JsonObject
from choir_memory.embedding.embedder import QueryVector, supports_language
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.schema.store import SpaceRegistry, admin_read_transaction, agent_transaction
from choir_memory.search.candidates import ARM_LIMIT
from choir_memory.search.corpus_store import CorpusCache
from choir_memory.search.document_store import (
    StoredDocument,
    read_context,
    read_documents,
    read_newest,
    read_session_page,
)
from choir_memory.search.expansion import EXPANSION_DEADLINE_S, QueryExpander
from choir_memory.search.fusion import MATCHING_ARMS, RankedDocument, RankingQuery, rank
from choir_memory.search.hit_selection import (
    DistinctHit,
    SelectedHit,
    context_positions,
    fit_to_budget,
    merge_duplicates,
)
from choir_memory.search.query import (
    QueryTimer,
    build_scope,
    effective_limit,
    is_listing,
    validate_query,
)
from choir_memory.search.receipt_store import NewReceipt, ReceiptStore, StoredReceipt
from choir_memory.search.receipt_writer import ReceiptWriter
from choir_memory.search.response import build_hits, build_receipt
from choir_memory.search.retrieval import (
    EMPTY_RESULT,
    RetrievalQuery,
    RetrievalResult,
    retrieve,
    transaction_settings,
)
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.similar_terms import SimilarWords, retrieve_similar
from choir_memory.search.space_cache import SpaceCache
from choir_memory.search.text_arm_store import MAX_TERMS
from choir_memory.text.clauses import clauses_to_search, split_sentences
from choir_memory.text.dates import QueriedTime, find_time
from choir_memory.text.questions import asks_agent, content_terms
from choir_memory.text.tokens import query_terms
from choir_memory.usage.reporter import work_for

log = structlog.get_logger("choir.memory.recall")

MAX_QUERY_TERMS = 64
"""Maximum terms of a query; of a pasted page the longest ones are used."""
MAX_RANKED = 1_000
"""Maximum hits ranked while duplicates are merged; more repetitions than that fill any response."""
KNOWLEDGE_FLOOR = 0.17
"""Part of the best hit's score that further hits of knowledge need by default: a note or a fact is complete
by itself, so a much weaker one is about something else. A message may be answered by its neighbour."""
RECEIPT_DELAY_S = 0.2
"""Seconds after which a receipt of another replica's search is stored, if its database is available."""


@dataclass(slots=True)
class _SearchState:
    """State of one query."""

    query: MemoryQuery
    scope: SearchScope
    stages: QueryTimer
    vector: QueryVector | None = None
    degraded: str | None = None
    """Why there is no vector."""
    time: QueriedTime | None = None
    added: tuple[str, ...] = ()
    """Terms that the language model added."""
    result: RetrievalResult = EMPTY_RESULT
    similar: SimilarWords = field(default_factory=dict)
    pending: str | None = None
    """The optional stage of retrieval that is running."""
    ranking: Sequence[RankedDocument] = ()
    times: dict[UUID, int] = field(default_factory=dict)
    """Number of documents with the same text, by hit."""
    selected_hits: Sequence[SelectedHit] = ()
    more_after: int | None = None

    def record_unfinished_stages(self) -> None:
        """Add the optional stages that did not finish to the receipt's `cut`."""
        done = self.stages.took_ms
        if self.vector is not None and "find" not in done:
            self.stages.cut.append("vector")
        if self.pending is not None:
            self.stages.cut.append(self.pending)
        if self.query.context and "context" not in done:
            self.stages.cut.append("context")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchService:
    """Search over agents' documents."""

    database: Database
    spaces: SpaceRegistry
    embedders: EmbedderRegistry
    clock: Clock
    receipts: ReceiptWriter
    space_cache: SpaceCache
    expander: QueryExpander | None = None
    corpora: CorpusCache = field(default_factory=CorpusCache)

    async def query(self, query: MemoryQuery) -> MemoryHits:
        """Return the best hits; raises InvalidRequest, or NotFound if another agent has no memory."""
        validate_query(query)
        scope = build_scope(query, self.clock.now())
        if scope.agent_id == query.agent_id:
            await self.spaces.ensure(scope.agent_id)
        else:
            await self.spaces.require(scope.agent_id)
            log.info("cross-agent read", agent_id=query.agent_id, target_agent=scope.agent_id)
        search = _SearchState(query, scope, QueryTimer(self.clock, query.deadline_ms / 1000))
        if query.mode == "session_detail" and not query.query.strip():
            await self._read_session(search)
        elif is_listing(query):
            await self._list_newest(search)
        else:
            if query.expand:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._make_vector(search))
                    tasks.create_task(self._expand(search))
            else:
                await self._make_vector(search)
            await self._find(search)
        return self._answer(search)

    async def receipt(self, request: ReadSearchReceipt) -> SearchReceipt:
        """Return the receipt of a search; raises NotFound when there is none (any more)."""
        record = await self._read_receipt(request)
        if record is None:
            raise NotFound(
                _("There is no receipt {receipt_id} of {agent_id}'s memory.").format(
                    receipt_id=request.receipt_id, agent_id=request.agent_id
                )
            )
        return SearchReceipt(
            receipt_id=request.receipt_id,
            at=record.at,
            agent_id=request.agent_id,
            asked_by=record.asked_by,
            receipt=record.receipt,
        )

    async def _read_receipt(self, request: ReadSearchReceipt) -> StoredReceipt | None:
        try:
            receipt_id = UUID(request.receipt_id)
        except ValueError:
            return None
        store = ReceiptStore(self.database)
        await self.receipts.flush()
        if (record := await store.read(receipt_id, request.agent_id)) is not None:
            return record
        # the search may have been another replica's, a moment ago
        await asyncio.sleep(RECEIPT_DELAY_S)
        return await store.read(receipt_id, request.agent_id)

    async def _read_session(self, search: _SearchState) -> None:
        """Read a page of a session in order."""
        query, limit = search.query, effective_limit(search.query)
        after = -1 if query.after is None else query.after
        with search.stages.stage("read"):
            async with self._reading(search) as connection:
                # one more than is returned, to know whether there is another page
                documents = await read_session_page(connection, search.scope, after, limit + 1)
        search.ranking = [RankedDocument(document.document_id, 0.0, {}) for document in documents]
        search.selected_hits = fit_to_budget(
            documents[:limit], {}, query.budget_tokens, in_order=True
        )
        if search.selected_hits and len(search.selected_hits) < len(documents):
            search.more_after = search.selected_hits[-1].document.position

    async def _list_newest(self, search: _SearchState) -> None:
        """Read the newest documents in the scope."""
        with search.stages.stage("read"):
            async with self._reading(search) as connection:
                documents = await read_newest(
                    connection, search.scope, effective_limit(search.query)
                )
        search.ranking = [RankedDocument(document.document_id, 0.0, {}) for document in documents]
        search.selected_hits = fit_to_budget(
            documents, {}, search.query.budget_tokens, in_order=True
        )

    async def _make_vector(self, search: _SearchState) -> None:
        if search.query.mode != "semantic" or "vector" not in search.query.arms:
            return
        try:
            with search.stages.stage("embedding"):
                async with search.stages.limit():
                    search.vector = await self.embedders.embed_query(search.query.query)
        except ChoirError as error:
            search.degraded = _("Full text only: {error}").format(error=error.message)
        except TimeoutError:
            search.stages.cut.append("vector")
            search.degraded = _(
                "Full text only: the query vector was not ready before the deadline."
            )

    async def _expand(self, search: _SearchState) -> None:
        """Get related words from the language model; without them the search is the same as without the
        option."""
        query = search.query
        if "expansion" not in query.arms or self.expander is None:
            return
        # the rarest terms are used: added ones must not displace those of the query
        room = max(0, MAX_TERMS - len(content_terms(query.query)))
        deadline_s = min(EXPANSION_DEADLINE_S, query.deadline_ms / 2_000)
        try:
            with search.stages.stage("expansion"), work_for(query.agent_id):
                async with asyncio.timeout(deadline_s):
                    search.added = (await self.expander.expand(query.query))[:room]
        except (ChoirError, TimeoutError) as error:
            log.info("query not expanded", agent_id=query.agent_id, error=type(error).__name__)
            search.stages.cut.append("expansion")

    async def _find(self, search: _SearchState) -> None:
        try:
            async with search.stages.limit():
                await self._rank_and_read(search, everything=True)
        except TimeoutError:
            # the second attempt has no timeout, and leaves out the vector arm and the context
            search.record_unfinished_stages()
            await self._rank_and_read(search, everything=False)

    async def _rank_and_read(self, search: _SearchState, *, everything: bool) -> None:
        query, scope = search.query, search.scope
        context = {}
        vector = search.vector if everything else None
        settings = transaction_settings(self.corpora, scope, vector, _arm_depth(query))
        # one transaction for all statements: each transaction costs two round trips
        async with self._reading(search, settings) as connection:
            if everything or "find" not in search.stages.took_ms:
                with search.stages.stage("find"):
                    retrieval = self._retrieval_query(search, everything, settings)
                    search.result = await retrieve(
                        connection, retrieval, corpora=self.corpora, spaces=self.space_cache
                    )
                if everything and "typo" in query.arms and retrieval.terms:
                    await self._find_similar(search, connection, retrieval)
            distinct_hits = await self._distinct_hits(search, connection)
            search.ranking = [hit.ranked_document for hit in distinct_hits]
            search.times = {hit.document.document_id: hit.times for hit in distinct_hits}
            documents = [hit.document for hit in distinct_hits]
            if query.context and everything:
                with search.stages.stage("context"):
                    context_scope = scope.context_scope()
                    context = await read_context(
                        connection, context_scope, context_positions(documents)
                    )
        search.selected_hits = fit_to_budget(documents, context, query.budget_tokens)

    async def _find_similar(
        self, search: _SearchState, connection: Connection, retrieval: RetrievalQuery
    ) -> None:
        """Search for similar words in place of those that occur nowhere."""
        search.pending = "typo"
        with search.stages.stage("typo"):
            typo = await retrieve_similar(
                connection,
                retrieval,
                corpora=self.corpora,
                spaces=self.space_cache,
                first=search.result,
            )
        search.pending = None
        search.result, search.similar = typo.result, typo.similar

    async def _distinct_hits(
        self, search: _SearchState, connection: Connection
    ) -> list[DistinctHit]:
        """Read the best hits, and more of them while some are duplicates of others."""
        limit = most = effective_limit(search.query)
        documents: dict[UUID, StoredDocument] = {}
        while True:
            with search.stages.stage("weigh"):
                ranking = self._rank(search, most)
            with search.stages.stage("read"):
                unread_ids = [
                    ranked_document.document_id
                    for ranked_document in ranking
                    if ranked_document.document_id not in documents
                ]
                documents |= await read_documents(connection, search.scope, unread_ids)
            distinct_hits = merge_duplicates(ranking, documents)
            if len(distinct_hits) >= limit or len(ranking) < most or most >= MAX_RANKED:
                return distinct_hits[:limit]
            # duplicates left too few hits: rank more documents
            most = min(MAX_RANKED, most * 4)

    def _retrieval_query(
        self, search: _SearchState, everything: bool, settings: Sequence[str]
    ) -> RetrievalQuery:
        query, terms = search.query, None
        if "text" in query.arms or query.mode != "semantic":
            words = content_terms(query.query)
            terms = sorted(words, key=len, reverse=True)[:MAX_QUERY_TERMS]
            terms += search.added
        if "time" in query.arms:
            search.time = find_time(query.query, self.clock.now())
        return RetrievalQuery(
            search.scope,
            terms,
            search.vector if everything else None,
            with_times=search.time is not None,
            with_neighbours=query.mode == "semantic",
            depth=_arm_depth(query),
            settings=settings,
            added=search.added,
        )

    def _rank(self, search: _SearchState, limit: int) -> Sequence[RankedDocument]:
        query, result = search.query, search.result
        question = RankingQuery(
            frozenset(query_terms(query.query)),
            result.text.terms,
            result.text.counts,
            result.text.documents,
            result.text.mean_tokens,
            result.vectors.mean,
            result.vectors.deviation,
            result.vectors.whole_mean,
            search.time,
            supports_language(self.embedders.name, query.query),
            asks_agent(query.query),
            misspelt=search.similar,
            added=search.added,
            clauses=_clauses(query),
        )
        ranking = rank(question, result.material, result.lists, query.arms, limit)
        if query.min_score is not None:
            return [document for document in ranking if document.score >= query.min_score]
        return _without_weak_hits(query, ranking)

    def _answer(self, search: _SearchState) -> MemoryHits:
        hits = build_hits(search.selected_hits, search.ranking, search.times)
        receipt = build_receipt(
            search.query,
            search.stages,
            search.result.lists,
            hits,
            search.degraded,
            misspelt=len(search.similar),
            added=len(search.added),
        )
        receipt_id = self._queue_receipt(search, receipt)
        return MemoryHits(
            hits=hits,
            arms_used=tuple(sorted(search.result.lists)),
            degraded=search.degraded,
            cut=tuple(search.stages.cut),
            receipt_id=receipt_id,
            receipt=receipt if search.query.explain else None,
            tokens=sum(hit.tokens for hit in search.selected_hits),
            similar_words=dict(search.similar),
            added_words=search.added,
            more_after=search.more_after,
        )

    def _queue_receipt(self, search: _SearchState, receipt: JsonObject) -> str | None:
        record = NewReceipt(
            uuid4(), search.scope.agent_id, search.query.agent_id, orjson.dumps(receipt).decode()
        )
        if self.receipts.add(record):
            return str(record.receipt_id)
        # the response is ready: return it without a receipt
        log.warning("search receipt not stored: too many are waiting for the database")
        search.stages.cut.append("receipt")
        return None

    @contextlib.asynccontextmanager
    async def _reading(
        self, search: _SearchState, settings: Sequence[str] = ()
    ) -> AsyncIterator[Connection]:
        agent_id = search.scope.agent_id
        own = agent_id == search.query.agent_id
        lend = agent_transaction if own else admin_read_transaction
        async with lend(
            self.database, agent_id, plan_once=True, local_settings=settings
        ) as connection:
            yield connection


def _without_weak_hits(
    query: MemoryQuery, ranking: Sequence[RankedDocument]
) -> Sequence[RankedDocument]:
    """Return the hits that a search of knowledge returns by default; all of sessions.

    An expanded query asks for documents that have little in common with its words.
    """
    if query.store != "knowledge" or query.expand or not ranking or ranking[0].score <= 0:
        return ranking
    floor = KNOWLEDGE_FLOOR * ranking[0].score
    return [hit for hit in ranking if hit.score >= floor and _is_relevant(hit)]


def _is_relevant(hit: RankedDocument) -> bool:
    # in a language that the model does not support, a similarity alone is chance
    return hit.relevance > 0 or not hit.arms.keys().isdisjoint(MATCHING_ARMS)


def _arm_depth(query: MemoryQuery) -> int:
    """Return the number of documents that each arm returns."""
    return max(ARM_LIMIT, effective_limit(query))


def _clauses(query: MemoryQuery) -> list[frozenset[str]]:
    """Return the terms of each sentence of a query, without greetings; nothing if it is one sentence."""
    if "clause" not in query.arms:
        return []
    if split_sentences(query.query) == [query.query.strip()]:
        return []
    return [frozenset(content_terms(clause.text)) for clause in clauses_to_search(query.query)]
