"""Extract facts and rules from turns, in batches. A maintenance task run by `grains.rounds`.

Uses the service's own language model; without one nothing is extracted. Next are `candidates`,
`reconcile` and `facts_store`. The position is stored in `choir_memory.cursors`, in the transaction that
stores the results of a batch: an interrupted batch is read again and gives the same rows.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from itertools import takewhile
from uuid import UUID

import structlog

from choir_common.errors import BadInput
from choir_common.postgres.pool import Connection, Database
from choir_memory.documents.kinds import TRUST, KnowledgeKind, least_trust
from choir_memory.documents.links_store import Link, LinkStore
from choir_memory.documents.row import document_id
from choir_memory.embedding.queue_store import enqueue_all
from choir_memory.layers.candidates import (
    Candidate,
    Turn,
    read_candidates,
    rule_on,
    shown,
    source_of,
)
from choir_memory.layers.cursor_store import move_cursor, read_cursor
from choir_memory.layers.entities import entities_of
from choir_memory.layers.facts_store import FactStore, Placed, Position
from choir_memory.layers.known import Known
from choir_memory.layers.known_store import KnownStore, prepare_known
from choir_memory.layers.model import Model
from choir_memory.layers.reconcile import Beside, Embed, decide, lay_beside, meaning
from choir_memory.schema.lease_store import Leases
from choir_memory.schema.store import as_agent, resume_service_role

log = structlog.get_logger("choir.memory.facts")

CURSOR = "facts"
BATCH_TURNS = 30
BATCH_CHARS = 12_000
BATCHES = 40
"""Maximum batches per agent and pass, so that all agents get a turn; the next pass continues."""
MAX_RULES = 50
"""Maximum active rules; the least frequent and oldest are retired, so that rules never fill a prompt."""
LEAST_TRUST = TRUST["agent"]
"""Minimum trust of a turn. What an agent says after reading a page has the page's trust, and is not
learned."""
BEGINNING = Position(datetime(1970, 1, 1, tzinfo=UTC), "", -1)


@dataclass(frozen=True, slots=True)
class _Found:
    """A candidate and the turn it rests on."""

    new: Candidate
    turn: Turn
    commit: bool


@dataclass(frozen=True, slots=True)
class _Planned:
    """A candidate with its nearest stored facts."""

    new: Candidate
    turn: Turn
    commit: bool
    beside: Beside


@dataclass(frozen=True, slots=True)
class Extraction:
    """The maintenance task that extracts facts and rules; `announce` wakes the embedding queue."""

    database: Database
    leases: Leases
    model: Model
    embed: Embed
    announce: Callable[[int], None]

    async def run_agent(self, agent_id: str) -> int:
        """Process an agent's new turns; return the number of batches. Raises the errors of the model."""
        done = 0
        async with self.leases.hold(agent_id, CURSOR) as ours:
            while ours and done < BATCHES and await self._batch(agent_id):
                done += 1
                ours = await self.leases.renew(agent_id, CURSOR)
        return done

    async def _batch(self, agent_id: str) -> bool:
        after = await read_cursor(self.database, agent_id, CURSOR)
        position = read_position(after) if after else BEGINNING
        async with as_agent(self.database, agent_id) as held:
            placed = await FactStore(held, agent_id).next_turns(position, LEAST_TRUST, BATCH_TURNS)
        batch = _one_session(placed)
        if not batch:
            return False
        turns = [one.turn for one in batch]
        # no transaction is open during model calls, which may take long
        found = _worth_keeping(await self._propose(turns), turns)
        plan = await self._plan(agent_id, found)
        cases = [(old, one.new) for one in plan if one.commit for old in one.beside.rivals]
        replaced = {
            (old.document_id, new.identity)
            for (old, new), is_replaced in zip(cases, await decide(self.model, cases), strict=True)
            if is_replaced
        }
        async with as_agent(self.database, agent_id) as held:
            keeper = _Keeper(held, agent_id, FactStore(held, agent_id), self.model.name)
            written = await keeper.keep(plan, replaced)
            if written is None:
                return True  # a turn was erased meanwhile: read the batch again
            await resume_service_role(held)
            await enqueue_all(held, agent_id, "knowledge", written)
            # also without results, so that the batch is not read again
            await move_cursor(held, agent_id, CURSOR, write_position(batch[-1].position))
        self.announce(len(written))
        return True

    async def _plan(self, agent_id: str, found: Sequence[_Found]) -> list[_Planned]:
        vectors = [await meaning(self.embed, one.new) for one in found]
        async with as_agent(self.database, agent_id) as held:
            store = FactStore(held, agent_id)
            return [
                _Planned(one.new, one.turn, one.commit, await lay_beside(store, one.new, vector))
                for one, vector in zip(found, vectors, strict=True)
            ]

    async def _propose(self, turns: Sequence[Turn]) -> list[Candidate]:
        """Call the model, again with the error if its answer is invalid; a second invalid answer yields
        nothing."""
        instructions = files("choir_memory.layers").joinpath("facts.md").read_text("utf-8")
        material = shown(turns)
        answer = await self.model.answer(instructions, material)
        try:
            return read_candidates(answer)
        except BadInput as error:
            again = f"{instructions}\nYour last answer could not be used. {error.message}"
        try:
            return read_candidates(await self.model.answer(again, material))
        except BadInput as error:
            log.warning("a batch gave no facts", model=self.model.name, error=error.message)
            return []


@dataclass(frozen=True, slots=True)
class _Keeper:
    """Writer of a batch's results, in one transaction. The caller has the lease, so there is no other
    writer."""

    held: Connection
    agent_id: str
    store: FactStore
    model: str

    async def keep(
        self, plan: Sequence[_Planned], replaced: Collection[tuple[UUID, str]]
    ) -> list[UUID] | None:
        """Store or count each candidate; return the ids that need a vector, or None if a turn no longer
        exists."""
        if not await self.store.hold([one.turn.document_id for one in plan]):
            return None
        written: list[UUID] = []
        links: list[Link] = []
        for one in plan:
            known = one.beside.same.document_id if one.beside.same else None
            if known is None or not await self.store.seen(
                known, one.turn.session_id, one.turn.trust, commit=one.commit
            ):
                new = _known(one, self.model)
                known = new.document_id
                store = KnownStore(self.held, self.agent_id)
                written += await store.put(await prepare_known([new]))
                links += await self._mention(store, new)
            links.append(Link(known, "evidence", one.turn.document_id))
            for rival in one.beside.rivals:
                if (rival.document_id, one.new.identity) in replaced:
                    await self.store.close(rival.document_id, one.turn.happened_at)
                    links.append(Link(known, "supersedes", rival.document_id))
        await LinkStore(self.held, self.agent_id).add(links)
        await self.store.cap_rules(MAX_RULES)
        return written

    async def _mention(self, store: KnownStore, new: Known) -> list[Link]:
        """Store the entities that a fact mentions; entities get no vectors."""
        if new.kind != "fact" or new.happened_at is None:
            return []
        names = [new.subject or "", new.object or ""]
        nodes = entities_of(names, new.happened_at, new.trust)
        await store.put(await prepare_known(nodes))
        return [Link(new.document_id, "mentions", one.document_id) for one in nodes]


def _worth_keeping(candidates: Sequence[Candidate], turns: Sequence[Turn]) -> list[_Found]:
    """Return the accepted candidates without duplicates; of equal ones, a committed one wins."""
    found: dict[str, _Found] = {}
    for one in candidates:
        ruling, turn = rule_on(one, turns), source_of(one, turns)
        if turn is None or ruling == "drop":
            continue
        before = found.get(one.identity)
        if before is None or (ruling == "commit" and not before.commit):
            found[one.identity] = _Found(one, turn, ruling == "commit")
    return list(found.values())


def _known(one: _Planned, model: str) -> Known:
    new, turn = one.new, one.turn
    kind: KnowledgeKind = new.kind
    return Known(
        document_id=document_id(str(turn.document_id), kind, new.identity),
        kind=kind,
        text=new.text,
        origin="derived",
        trust=least_trust([turn.trust]),
        status="active" if one.commit else "held",
        category=new.category.lower(),
        subject=new.subject,
        predicate=new.predicate,
        object=new.object,
        evidence=new.quote,
        happened_at=turn.happened_at,
        valid_from=turn.happened_at,
        metadata={"by": model},
    )


def _one_session(placed: Sequence[Placed]) -> list[Placed]:
    """Return the leading turns that belong to one session and fit in a batch."""
    if not placed:
        return []
    first = placed[0].position.session_id
    batch: list[Placed] = []
    chars = 0
    for one in takewhile(lambda one: one.position.session_id == first, placed):
        chars += len(one.turn.text)
        if batch and chars > BATCH_CHARS:
            break
        batch.append(one)
    return batch


def read_position(position: dict[str, object]) -> Position:
    """Parse the position stored in a cursor."""
    at, session, index = position["at"], position["session"], position["index"]
    assert isinstance(index, int)
    return Position(datetime.fromisoformat(str(at)), str(session), index)


def write_position(position: Position) -> dict[str, object]:
    """Return a position in the form stored in a cursor."""
    at = position.created_at.isoformat()
    return {"at": at, "session": position.session_id, "index": position.chunk_index}
