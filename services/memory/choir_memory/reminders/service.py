"""Select memories to inject with a user message.

Runs before the agent's model is called. Included are active rules, facts about
the entities that the message names, and search results that are clearly relevant. Text by third parties
is never included unasked, since it would influence every conversation on its topic.
"""

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.wire.memory_recall import ReadReminders, Reminder, Reminders
from choir_common.wire.memory_search import Kind, MemoryHit, MemoryQuery
from choir_memory.documents.collections_store import list_collection_names
from choir_memory.documents.model import TRUST
from choir_memory.facts.entities import entity_ids
from choir_memory.facts.safety import weakens_safety
from choir_memory.reminders.store import ReminderStore, Store
from choir_memory.schema.store import SpaceRegistry, agent_transaction
from choir_memory.search.hit_selection import estimate_tokens, normalise_text
from choir_memory.search.service import SearchService
from choir_memory.text.clauses import Clause, ClauseKind, clauses_to_search
from choir_memory.text.questions import content_terms
from choir_memory.text.splitting import ELLIPSIS, extract_excerpt
from choir_memory.text.tokens import document_tokens, query_terms

MIN_TRUST = TRUST["agent"]
"""Users, the agent and documents an operator added; not pages, mail or tool output."""
MIN_RELEVANCE: Mapping[ClauseKind, float] = {
    "own question": 0.1,
    "named question": 0.33,
    "own statement": 0.4,
    "question": 0.4,
    "other": 0.5,
}
"""Relevance of the best hit, from which a clause brings anything up. The less likely a clause needs memory,
the clearer the hit has to be (decision 75)."""
MIN_SHARE_OF_BEST: Mapping[Store, float] = {"knowledge": 0.4, "session": 0.1}
"""Part of that relevance which further hits of the clause need. A message may be answered by its neighbour; a
note or a fact is complete by itself."""
RULES_SHARE = 3
"""Rules may use a third of the budget, most frequent first."""
MAX_RULES, MAX_ENTITY_FACTS, MAX_SEARCH_RESULTS = 20, 8, 10
"""Limits of each query; the best results come first."""
MIN_DEADLINE_MS = 100
"""Minimum time of one search; the clauses share the deadline of the request."""
MAX_COLLECTIONS = 3
"""Collections that are named with one message."""
MAX_REMINDER_CHARS = 300
"""Maximum characters of one reminder, an excerpt around the topic; the full text is available by search."""
MIN_REPETITION_CHARS = 16
"""Minimum characters for one text contained in another to count as a repetition."""
SESSION_SUMMARY_KINDS = ("summary", "episode")
"""Kinds that summarise a whole session; one per session is enough."""
KINDS_BY_STORE: Mapping[Store, tuple[Kind, ...]] = {
    "knowledge": ("note", "fact", "episode", "document_chunk"),
    "session": ("turn", "note", "summary"),
}


@dataclass(slots=True)
class _SearchResults:
    """The relevant hits of all clauses, each document once."""

    hits: list[MemoryHit] = field(default_factory=list)
    order: dict[str, bool] = field(default_factory=dict)
    """By document: False if a clause about somebody found it, which comes first."""
    receipts: list[str] = field(default_factory=list)

    def add(self, clause: Clause, hits: Sequence[MemoryHit]) -> None:
        """Add the hits that are relevant to the clause."""
        best = max((hit.relevance for hit in hits), default=0.0)
        # who is named by the name of a speaker is known to memory
        is_known = any(arm.arm == "speaker" and arm.part > 0 for hit in hits for arm in hit.arms)
        kind = "own question" if is_known and clause.kind == "named question" else clause.kind
        if best < MIN_RELEVANCE[kind]:
            return
        for hit in hits:
            # only documents of sessions have a tier
            share = MIN_SHARE_OF_BEST["session" if hit.tier else "knowledge"]
            if hit.relevance >= share * best and hit.document_id not in self.order:
                self.order[hit.document_id] = kind in ("question", "other")
                self.hits.append(hit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReminderService:
    """Selection of memories to inject with a user message."""

    database: Database
    spaces: SpaceRegistry
    search: SearchService
    clock: Clock

    async def remind(self, request: ReadReminders) -> Reminders:
        """Return rules, facts about named entities and relevant search results within the budget."""
        await self.spaces.ensure(request.agent_id)
        async with agent_transaction(self.database, request.agent_id) as connection:
            store = ReminderStore(
                connection=connection,
                agent_id=request.agent_id,
                now=self.clock.now(),
                min_trust=MIN_TRUST,
                scopes=request.scopes,
                reader=request.reader,
            )
            stores = await store.list_nonempty_stores(request.session_id)
            if not stores:
                return Reminders(reminders=(), empty=True)
            # checked again, because a rule may come from an import
            rules = [
                rule for rule in await store.list_rules(MAX_RULES) if not weakens_safety(rule.text)
            ]
            entity_facts = await store.list_facts_about(
                entity_ids(request.text), request.tags, MAX_ENTITY_FACTS
            )
            summary_kinds = await store.list_summarised_sessions(list(_ids(request.known)))
            collection_names = await list_collection_names(connection, request.agent_id)
        results = await self._search_clauses(request, stores)
        relevant = [_build_reminder(hit) for hit in results.hits]
        budget = request.budget_tokens
        block = _ReminderBlock(content_terms(request.text), set(request.known), summary_kinds)
        fitting_rules = list(block.fitting(rules, budget // RULES_SHARE))
        budget -= sum(estimate_tokens(rule.text) for rule in fitting_rules)
        reminders = (*fitting_rules, *block.fitting([*entity_facts, *relevant], budget))
        return Reminders(
            reminders=reminders,
            receipts=tuple(results.receipts),
            collections=_relevant_collections(request.text, collection_names, results.hits),
        )

    async def _search_clauses(
        self, request: ReadReminders, stores: Collection[Store]
    ) -> _SearchResults:
        """Return the relevant hits of each clause in each store, best first.

        No further clause is searched after the deadline: late reminders would be none.
        """
        results = _SearchResults()
        clauses = clauses_to_search(request.text)
        deadline_ms = max(MIN_DEADLINE_MS, request.deadline_ms // max(1, len(clauses)))
        end = self.clock.monotonic() + request.deadline_ms / 1000
        for clause in clauses:
            if results.receipts and self.clock.monotonic() > end:
                break
            queries = _queries(request, clause.text, stores, deadline_ms)
            answers = await asyncio.gather(*(self.search.query(query) for query in queries))
            results.receipts += [answer.receipt_id for answer in answers if answer.receipt_id]
            hits = [hit for answer in answers for hit in answer.hits]
            results.add(clause, hits)
        results.hits.sort(key=lambda hit: (results.order[hit.document_id], -hit.score))
        return results


@dataclass(slots=True)
class _ReminderBlock:
    """The reminders for one message, without duplicates of each other or of the prompt."""

    terms: Collection[str]
    """Content words of the message."""
    excluded_ids: set[str]
    """Documents to leave out: already in the prompt or in the block."""
    summary_kinds: dict[str, str]
    """Sessions with a summary or an episode in the block, and which of the two."""
    texts: list[str] = field(default_factory=list)

    def fitting(self, reminders: Iterable[Reminder], budget: int) -> Iterator[Reminder]:
        """Yield those that are new and fit, each cut to an excerpt relevant to the message."""
        for reminder in reminders:
            if reminder.document_id in self.excluded_ids or self._repeats(reminder):
                continue
            text = extract_excerpt(reminder.text, self.terms, MAX_REMINDER_CHARS)
            budget -= estimate_tokens(text)
            if budget < 0:
                return
            self.excluded_ids.add(reminder.document_id)
            self.texts.append(normalise_text(text.strip(ELLIPSIS)))
            if reminder.kind in SESSION_SUMMARY_KINDS and reminder.session_id:
                self.summary_kinds[reminder.session_id] = reminder.kind
            yield reminder.model_copy(update={"text": text})

    def _repeats(self, reminder: Reminder) -> bool:
        text, retells = normalise_text(reminder.text), reminder.kind in SESSION_SUMMARY_KINDS
        if (
            retells
            and self.summary_kinds.get(reminder.session_id or "", reminder.kind) != reminder.kind
        ):
            return True
        return any(
            text == block_text
            or (len(text) >= MIN_REPETITION_CHARS and text in block_text)
            or (retells and len(block_text) >= MIN_REPETITION_CHARS and block_text in text)
            for block_text in self.texts
        )


def _ids(names: Iterable[str]) -> Iterator[UUID]:
    for name in names:
        # agents may send anything here
        with contextlib.suppress(ValueError):
            yield UUID(name)


def _queries(
    request: ReadReminders, text: str, stores: Iterable[Store], deadline_ms: int
) -> Iterator[MemoryQuery]:
    for store in stores:
        yield MemoryQuery(
            agent_id=request.agent_id,
            store=store,
            # its turns are in the prompt, and would take the places of others
            exclude_session=request.session_id if store == "session" else None,
            query=text,
            kinds=KINDS_BY_STORE[store],
            min_trust=MIN_TRUST,
            limit=MAX_SEARCH_RESULTS,
            deadline_ms=deadline_ms,
            scopes=request.scopes,
            tags=request.tags,
            reader=request.reader,
        )


def _relevant_collections(
    text: str, names: Iterable[str], candidates: Iterable[MemoryHit]
) -> tuple[str, ...]:
    """Return collections with a relevant document, best first, and those that the message names."""
    # in knowledge, `session_id` is the collection
    searched_names = [
        hit.session_id for hit in candidates if hit.kind == "document_chunk" and hit.session_id
    ]
    message_terms = set(document_tokens(text))
    message_names = [
        name for name in names if (terms := query_terms(name)) and message_terms.issuperset(terms)
    ]
    return tuple(dict.fromkeys([*searched_names, *message_names]))[:MAX_COLLECTIONS]


def _build_reminder(hit: MemoryHit) -> Reminder:
    session = hit.metadata.get("session_id") if hit.kind == "episode" else hit.session_id
    return Reminder(
        document_id=hit.document_id,
        kind=hit.kind,
        text=hit.text,
        at=hit.happened_at or hit.updated_at,
        speaker=hit.speaker,
        session_id=session if isinstance(session, str) else None,
        origin=hit.origin,
        trust=hit.trust,
        times=hit.times,
        valid_from=hit.valid_from if hit.status == "upcoming" else None,
        valid_to=hit.valid_to,
    )
