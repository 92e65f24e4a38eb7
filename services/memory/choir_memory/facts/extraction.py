"""Extract facts and rules from turns, in batches: a maintenance task.

Uses the service's own language model; without one nothing is extracted. The position is stored in
`choir_memory.cursors`, in the transaction that stores the results of a batch: an interrupted batch is read
again and gives the same rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.resources import files
from itertools import takewhile
from uuid import UUID

import structlog

from choir_common.errors import InvalidRequest
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.config import MemoryPrompts
from choir_common.wire.memory_search import MemoryReader
from choir_memory.documents.model import (
    TRUST,
    Conversations,
    KnowledgeKind,
    document_id,
    is_readable,
    least_trust,
    merged_conversations,
)
from choir_memory.documents.store import Link, LinkStore
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.facts.candidates import (
    Candidate,
    Feedback,
    Proposals,
    SourceTurn,
    decide_on,
    find_feedback,
    find_source,
    parse_proposals,
    render_turns,
)
from choir_memory.facts.entities import entities_of
from choir_memory.facts.feedback_store import add_feedback
from choir_memory.facts.reconciliation import (
    RelatedFacts,
    decide_replacements,
    embed_candidate,
    find_related,
)
from choir_memory.facts.store import (
    FactStore,
    PositionedTurn,
    TurnPosition,
    read_cursor,
    write_cursor,
)
from choir_memory.knowledge.derived_store import (
    DerivedDocument,
    DerivedDocumentStore,
    prepare_derived,
)
from choir_memory.llm.model import LanguageModel
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.reader_store import read_readers
from choir_memory.schema.store import agent_transaction, resume_service_role

log = structlog.get_logger("choir.memory.facts")

CURSOR_NAME = "facts"
BATCH_TURNS = 30
BATCH_CHARS = 12_000
MAX_BATCHES = 40
"""Maximum batches per agent and pass, so that all agents get a turn; the next pass continues."""
MAX_RULES = 50
"""Maximum active rules; the least frequent and oldest are retired, so that rules never fill a prompt."""
MIN_TRUST = TRUST["agent"]
"""Minimum trust of a turn. What an agent says after reading a page has the page's trust, and is not
learned."""
REPETITIONS_IN_SESSION = 3
"""Messages of the user in one session that make a held fact or rule active."""
UNKNOWN_CONVERSATION = "?"
"""No name of a conversation."""
START = TurnPosition(datetime(1970, 1, 1, tzinfo=UTC), "", -1)


@dataclass(frozen=True, slots=True)
class _SourcedCandidate:
    """A candidate and the turns it rests on."""

    new: Candidate
    turns: tuple[SourceTurn, ...]
    commit: bool

    @property
    def turn(self) -> SourceTurn:
        """Return the turn that the candidate quotes."""
        return self.turns[0]


@dataclass(frozen=True, slots=True)
class _PlannedCandidate:
    """A candidate with its nearest stored facts."""

    new: Candidate
    turns: tuple[SourceTurn, ...]
    commit: bool
    related: RelatedFacts

    @property
    def turn(self) -> SourceTurn:
        """Return the turn that the candidate quotes."""
        return self.turns[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionTask:
    """The maintenance task that extracts facts and rules; `queue` is told how many documents were queued."""

    database: Database
    leases: LeaseStore
    model: LanguageModel
    embedders: EmbedderRegistry
    queue: EmbeddingQueue
    prompts: Mapping[str, MemoryPrompts] = field(default_factory=dict)
    """Prompts of the agents that have their own."""

    async def run_agent(self, agent_id: str) -> int:
        """Process an agent's new turns; return the number of batches. Raises the errors of the model."""
        done = 0
        async with self.leases.hold(agent_id, CURSOR_NAME) as ours:
            while ours and done < MAX_BATCHES and await self._batch(agent_id):
                done += 1
                ours = await self.leases.renew(agent_id, CURSOR_NAME)
        return done

    async def has_turns(self, agent_id: str) -> bool:
        """Return whether there are turns to read: the limit was reached, or another replica has the lease."""
        return bool(await self._read_turns(agent_id, 1))

    async def _read_turns(self, agent_id: str, limit: int) -> list[PositionedTurn]:
        cursor = await read_cursor(self.database, agent_id, CURSOR_NAME)
        position = parse_position(cursor) if cursor else START
        async with agent_transaction(self.database, agent_id) as connection:
            return await FactStore(connection, agent_id).read_turns(position, MIN_TRUST, limit)

    async def _batch(self, agent_id: str) -> bool:
        batch = _one_session(await self._read_turns(agent_id, BATCH_TURNS))
        if not batch:
            return False
        turns = [item.turn for item in batch]
        plan: list[_PlannedCandidate] = []
        feedback: list[tuple[Feedback, SourceTurn]] = []
        # no transaction is open during model calls, which may take long
        for reader, own_turns in group_by_reader(
            turns, await read_readers(self.database, agent_id)
        ):
            proposals = await self._propose(agent_id, own_turns)
            plan += await self._plan(agent_id, _worth_keeping(proposals, own_turns), reader)
            feedback += find_feedback(proposals.feedback, own_turns)
        cases = [(old, item.new) for item in plan if item.commit for old in item.related.rivals]
        replacements = {
            (old.document_id, new.identity)
            for (old, new), is_replaced in zip(
                cases, await decide_replacements(self.model, cases), strict=True
            )
            if is_replaced
        }
        async with agent_transaction(self.database, agent_id) as connection:
            store = FactStore(connection, agent_id)
            writer = _FactWriter(
                connection=connection, agent_id=agent_id, store=store, model=self.model.name
            )
            remain = await store.lock_turns([turn.document_id for _, turn in feedback])
            document_ids = await writer.write(plan, replacements) if remain else None
            if document_ids is None:
                return True  # a turn was erased meanwhile: read the batch again
            await resume_service_role(connection)
            await enqueue_all(connection, agent_id, "knowledge", document_ids)
            await add_feedback(connection, agent_id, feedback)
            # also without results, so that the batch is not read again
            await write_cursor(
                connection, agent_id, CURSOR_NAME, render_position(batch[-1].position)
            )
        self.queue.notify(len(document_ids))
        return True

    async def _plan(
        self, agent_id: str, accepted: Sequence[_SourcedCandidate], reader: MemoryReader | None
    ) -> list[_PlannedCandidate]:
        vectors = [await embed_candidate(self.embedders, candidate.new) for candidate in accepted]
        async with agent_transaction(self.database, agent_id) as connection:
            store = FactStore(connection, agent_id, reader)
            return [
                _PlannedCandidate(
                    candidate.new,
                    candidate.turns,
                    candidate.commit,
                    await find_related(store, candidate.new, vector),
                )
                for candidate, vector in zip(accepted, vectors, strict=True)
            ]

    async def _propose(self, agent_id: str, turns: Sequence[SourceTurn]) -> Proposals:
        """Call the model, again with the error if its answer is invalid; a second invalid answer yields
        nothing."""
        prompts = self.prompts.get(agent_id, MemoryPrompts())
        instructions = build_instructions(prompts.extraction)
        material = render_turns(turns)
        answer = await self.model.answer(instructions, material)
        try:
            return parse_proposals(answer)
        except InvalidRequest as error:
            again = f"{instructions}\nYour last answer was invalid. {error.message}"
        try:
            return parse_proposals(await self.model.answer(again, material))
        except InvalidRequest as error:
            log.warning(
                "no valid candidates in the model's answer; batch skipped",
                model=self.model.name,
                error=error.message,
            )
            return Proposals(candidates=[])


@dataclass(frozen=True, slots=True, kw_only=True)
class _FactWriter:
    """Writer of a batch's results, in one transaction. The caller has the lease, so there is no other
    writer."""

    connection: Connection
    agent_id: str
    store: FactStore
    model: str

    async def write(
        self, plan: Sequence[_PlannedCandidate], replacements: Collection[tuple[UUID, str]]
    ) -> list[UUID] | None:
        """Store or count each candidate; return the ids that need a vector, or None if a turn no longer
        exists."""
        turn_ids = [turn.document_id for candidate in plan for turn in candidate.turns]
        if not await self.store.lock_turns(turn_ids):
            return None
        document_ids: list[UUID] = []
        links: list[Link] = []
        for candidate in plan:
            fact_id = candidate.related.same.document_id if candidate.related.same else None
            if fact_id is None or not await self.store.count_repetition(
                fact_id, candidate.turn.session_id, candidate.turn.trust, commit=candidate.commit
            ):
                fact = _build_fact(candidate, self.model)
                fact_id = fact.document_id
                store = DerivedDocumentStore(self.connection, self.agent_id)
                document_ids += await store.put(await prepare_derived([fact]))
                links += await self._mention(store, fact)
            links += [Link(fact_id, "evidence", turn.document_id) for turn in candidate.turns]
            for rival in candidate.related.rivals:
                if (rival.document_id, candidate.new.identity) in replacements:
                    await self.store.retire(rival.document_id, candidate.turn.happened_at)
                    links.append(Link(fact_id, "supersedes", rival.document_id))
        await LinkStore(self.connection, self.agent_id).add(links)
        fact_ids = [link.from_id for link in links if link.kind == "evidence"]
        await self.store.promote_repeated(fact_ids, REPETITIONS_IN_SESSION)
        await self.store.cap_rules(MAX_RULES)
        return document_ids

    async def _mention(self, store: DerivedDocumentStore, fact: DerivedDocument) -> list[Link]:
        """Store the entities that a fact mentions; entities get no vectors."""
        if fact.kind != "fact" or fact.happened_at is None:
            return []
        names = [fact.subject or "", fact.object or ""]
        nodes = entities_of(names, fact.happened_at, fact.trust)
        await store.put(await prepare_derived(nodes))
        return [Link(fact.document_id, "mentions", node.document_id) for node in nodes]


def build_instructions(guidance: str | None) -> str:
    """Return the model's instructions: what to look for, in a fixed frame of form and safety rules."""
    package = files("choir_memory.facts")
    if guidance is None:
        guidance = package.joinpath("extraction_guidance.md").read_text("utf-8")
    frame = package.joinpath("extraction_prompt.md").read_text("utf-8")
    # not `format`: the frame contains JSON
    return frame.replace("{guidance}", guidance.strip())


def _worth_keeping(proposals: Proposals, turns: Sequence[SourceTurn]) -> list[_SourcedCandidate]:
    """Return the accepted candidates; equal ones become one with all their turns, quoting a committed
    one."""
    by_identity: dict[str, _SourcedCandidate] = {}
    for candidate in proposals.candidates:
        ruling = decide_on(candidate, turns, proposals.feedback)
        turn = find_source(candidate, turns)
        if turn is None or ruling == "drop":
            continue
        item = _SourcedCandidate(candidate, (turn,), ruling == "commit")
        before = by_identity.get(candidate.identity)
        if before is not None:
            first, second = (item, before) if item.commit and not before.commit else (before, item)
            item = replace(first, turns=tuple(dict.fromkeys((*first.turns, *second.turns))))
        by_identity[candidate.identity] = item
    return list(by_identity.values())


def group_by_reader(
    turns: Sequence[SourceTurn], readers: Sequence[MemoryReader]
) -> list[tuple[MemoryReader | None, list[SourceTurn]]]:
    """Return the turns of each reader, so that no call of the model sees those of two; else all of them."""
    if not readers:
        return [(None, list(turns))]
    groups: dict[MemoryReader, list[SourceTurn]] = {}
    for turn in turns:
        groups.setdefault(reader_of(turn.conversations, readers), []).append(turn)
    return list(groups.items())


def reader_of(conversations: Conversations, readers: Sequence[MemoryReader]) -> MemoryReader:
    """Return the reader who may find what was said in these conversations."""
    for reader in readers:
        if is_readable(reader, conversations):
            return reader
    # of no reader, and so nobody's but its own
    return MemoryReader(conversations=conversations or (UNKNOWN_CONVERSATION,))


def _build_fact(candidate: _PlannedCandidate, model: str) -> DerivedDocument:
    fact, turn = candidate.new, candidate.turn
    kind: KnowledgeKind = fact.kind
    return DerivedDocument(
        document_id=document_id(str(turn.document_id), kind, fact.identity),
        kind=kind,
        text=fact.text,
        origin="derived",
        trust=least_trust([turn.trust]),
        status="active" if candidate.commit else "held",
        category=fact.category.lower(),
        subject=fact.subject,
        predicate=fact.predicate,
        object=fact.object,
        evidence=fact.quote,
        happened_at=turn.happened_at,
        valid_from=turn.happened_at,
        metadata={"by": model, "session_id": turn.session_id},
        conversations=merged_conversations(source.conversations for source in candidate.turns),
    )


def _one_session(turns: Sequence[PositionedTurn]) -> list[PositionedTurn]:
    """Return the leading turns that belong to one session and fit in a batch."""
    if not turns:
        return []
    first = turns[0].position.session_id
    batch: list[PositionedTurn] = []
    chars = 0
    for turn in takewhile(lambda turn: turn.position.session_id == first, turns):
        chars += len(turn.turn.text)
        if batch and chars > BATCH_CHARS:
            break
        batch.append(turn)
    return batch


def parse_position(position: dict[str, object]) -> TurnPosition:
    """Parse the position stored in a cursor."""
    at, session, index = position["at"], position["session"], position["index"]
    assert isinstance(index, int)
    return TurnPosition(datetime.fromisoformat(str(at)), str(session), index)


def render_position(position: TurnPosition) -> dict[str, object]:
    """Return a position in the form stored in a cursor."""
    at = position.created_at.isoformat()
    return {"at": at, "session": position.session_id, "index": position.chunk_index}
