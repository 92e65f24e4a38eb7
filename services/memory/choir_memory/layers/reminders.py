"""Choose what an agent should have in mind when a user has said something.

Called by `endpoints.reminders` before the agent's model is asked. Wishes always; facts about what the words
name, by the graph of entities; and what the searches find that is clearly about it. Nothing that a stranger
wrote comes unasked: it would speak in every talk that touches its words.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.wire.memories import Kind, MemoryHit, MemoryQuery
from choir_common.wire.memory_reminders import Reminder, Reminders, RemindersWanted
from choir_memory.documents.kinds import TRUST
from choir_memory.layers.entities import entity_ids
from choir_memory.layers.reminders_store import ReminderStore, Store
from choir_memory.layers.safety import weakens_safety
from choir_memory.schema.spaces import Spaces
from choir_memory.schema.store import as_agent
from choir_memory.search.collapse import normalised
from choir_memory.search.pack import tokens_of
from choir_memory.search.recall import Recall
from choir_memory.words.excerpt import CUT, excerpt
from choir_memory.words.telling import telling_terms

LEAST_TRUST = TRUST["agent"]
"""What users and the agent said, what an operator brought; no page, no mail, no tool."""
CLEARLY = 0.5
"""Score from which a find may come: half of the message's information (`search.fuse`)..."""
NEAR = 0.35
"""...and the cosine it has beside that. By its score alone half of all messages that have nothing to do with
a memory bring something up, and a greeting finds greetings; by both, one in six does (decision 40). Where a
model puts everything nearer the score decides; without a vector the find's own words must have been meant."""
RULES_SHARE = 3
"""Wishes may take a third of the budget; the more often one was said, the sooner it is told."""
MOST_RULES, MOST_NAMED, MOST_FOUND = 20, 8, 4
"""Of each search; what is worth telling stands in front."""
LONGEST = 400
"""Characters of one, around what the message is about; the whole is found by asking."""
SENTENCE = 16
"""Characters from which one text inside another repeats it; a shorter one may be there by chance."""
RETELLING = ("summary", "episode")
"""Kinds that retell a whole session: of each session one of them is enough."""
WHERE: Mapping[Store, tuple[Kind, ...]] = {
    "knowledge": ("note", "fact", "episode", "document_chunk"),
    "session": ("turn", "note", "summary"),
}


@dataclass(frozen=True, slots=True)
class Reminding:
    """Answers what belongs beside a message."""

    database: Database
    spaces: Spaces
    recall: Recall
    clock: Clock

    async def remind(self, wanted: RemindersWanted) -> Reminders:
        """Return wishes, what the words name, and what is near them, as much as the budget holds."""
        await self.spaces.ensure(wanted.agent_id)
        async with as_agent(self.database, wanted.agent_id) as held:
            store = ReminderStore(held, wanted.agent_id, self.clock.now(), LEAST_TRUST)
            filled = await store.filled_beside(wanted.session_id)
            if not filled:
                return Reminders(reminders=(), empty=True)
            rules = [one for one in await store.rules(MOST_RULES) if not weakens_safety(one.text)]
            named = await store.about(entity_ids(wanted.text), MOST_NAMED)
            retold = await store.retold(list(_ids(wanted.known)))
        receipts: list[str] = []
        found: list[MemoryHit] = []
        for query in _queries(wanted, filled):
            hits = await self.recall.query(query)
            receipts += [hits.receipt_id] if hits.receipt_id else []
            found += [hit for hit in hits.hits if _is_about_it(hit)]
        found.sort(key=lambda hit: -hit.score)
        near = [_found(hit) for hit in found if hit.session_id != wanted.session_id or not hit.tier]
        budget = wanted.budget_tokens
        block = _Block(telling_terms(wanted.text), set(wanted.known), retold)
        wishes = list(block.fitting(rules, budget // RULES_SHARE))
        budget -= sum(tokens_of(one.text) for one in wishes)
        chosen = (*wishes, *block.fitting([*named, *near], budget))
        return Reminders(reminders=chosen, receipts=tuple(receipts))


@dataclass(slots=True)
class _Block:
    """What is laid beside one message; nothing in it, or in the prompt before it, is said twice."""

    terms: Collection[str]
    """What the message is about."""
    known: set[str]
    """Documents that need not come."""
    retold: dict[str, str]
    """Sessions that a summary or an episode has retold, and which of the two."""
    said: list[str] = field(default_factory=list)

    def fitting(self, found: Iterable[Reminder], room: int) -> Iterator[Reminder]:
        """Yield those that say something new and fit, each cut to what the message is about."""
        for one in found:
            if one.document_id in self.known or self._repeats(one):
                continue
            text = excerpt(one.text, self.terms, LONGEST)
            room -= tokens_of(text)
            if room < 0:
                return
            self.known.add(one.document_id)
            self.said.append(normalised(text.strip(CUT)))
            if one.kind in RETELLING and one.session_id:
                self.retold[one.session_id] = one.kind
            yield one.model_copy(update={"text": text})

    def _repeats(self, one: Reminder) -> bool:
        whole, retells = normalised(one.text), one.kind in RETELLING
        if retells and self.retold.get(one.session_id or "", one.kind) != one.kind:
            return True
        return any(
            whole == said
            or (len(whole) >= SENTENCE and whole in said)
            or (retells and len(said) >= SENTENCE and said in whole)
            for said in self.said
        )


def _ids(names: Iterable[str]) -> Iterator[UUID]:
    for name in names:
        # an agent may name whatever it likes
        with contextlib.suppress(ValueError):
            yield UUID(name)


def _queries(wanted: RemindersWanted, stores: Iterable[Store]) -> Iterator[MemoryQuery]:
    for store in stores:
        yield MemoryQuery(
            agent_id=wanted.agent_id,
            store=store,
            query=wanted.text,
            kinds=WHERE[store],
            min_trust=LEAST_TRUST,
            limit=MOST_FOUND,
            deadline_ms=wanted.deadline_ms,
        )


def _is_about_it(hit: MemoryHit) -> bool:
    if hit.score < CLEARLY:
        return False
    thoughts = {one.arm: one for one in hit.arms}
    meant, said = thoughts.get("vector"), thoughts.get("text")
    return meant.score >= NEAR if meant is not None else said is not None and said.rank > 0


def _found(hit: MemoryHit) -> Reminder:
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
    )
