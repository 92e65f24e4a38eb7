"""Review the held facts of ended sessions, once: a maintenance task that runs after the extraction.

A held fact becomes active if another message of the user or the session's episode supports it. The model
judges, in one call per session with held facts and reader of the memory: it sees only what that reader may
find. Code checks that its quotation is in the source.
Rules are not reviewed: only the user's own repetition makes one active.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from uuid import UUID

import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.postgres.pool import Database
from choir_common.wire.memory_search import MemoryReader
from choir_memory.documents.store import Link, LinkStore
from choir_memory.facts.candidates import SourceTurn, contains_quote, render_turns
from choir_memory.facts.extraction import (
    CURSOR_NAME,
    MIN_TRUST,
    START,
    parse_position,
    reader_of,
)
from choir_memory.facts.held_store import HeldFact, HeldFactStore, SupportKind, list_ended
from choir_memory.facts.store import FactStore, read_cursor
from choir_memory.llm.model import LanguageModel
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.reader_store import read_readers
from choir_memory.schema.store import agent_transaction
from choir_memory.text.tokens import query_terms

log = structlog.get_logger("choir.memory.facts")

MAX_FACTS = 20
"""Maximum held facts per call; the rest of the session follows in the next."""
MAX_CHARS = 12_000
"""Maximum characters of the user's messages per call: those that share most words with the facts."""
MAX_CALLS = 20
"""Maximum calls per agent and pass, so that all agents get a turn; the next pass continues."""
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")


class _Support(BaseModel):
    model_config = ConfigDict(extra="ignore")

    statement: int
    source: int
    quote: str


class _SupportList(BaseModel):
    model_config = ConfigDict(extra="ignore")

    supported: list[_Support]


@dataclass(frozen=True, slots=True)
class _Material:
    """The held facts of a session, and what may support them."""

    facts: Sequence[HeldFact]
    turns: Sequence[SourceTurn]
    episode: str

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing but the evidence that the facts have already."""
        evidence = {turn_id for fact in self.facts for turn_id in fact.evidence}
        same_source = len(self.facts) == 1 or len(evidence) == 1
        has_other = any(turn.document_id not in evidence for turn in self.turns)
        return not self.episode and not has_other and same_source

    def render(self) -> str:
        """Return the material as the model reads it: statements and lines, quoted."""
        statements = (f"> S{number}. {fact.text}" for number, fact in enumerate(self.facts, 1))
        lines = [render_turns(self.turns)] if self.turns else []
        if self.episode:
            lines.append(f"> {len(self.turns) + 1}. [summary] {' '.join(self.episode.split())}")
        return "\n".join(["Statements:", *statements, "Lines:", *lines])


@dataclass(frozen=True, slots=True)
class _ReviewBatch:
    """The held facts to review next: of one session, and of one reader of the memory."""

    session_id: str
    reader: MemoryReader | None
    """None: the memory is shared."""
    facts: Sequence[HeldFact]


@dataclass(frozen=True, slots=True)
class _SupportedFact:
    """A held fact with the turn that supports it; None: the episode does."""

    fact: HeldFact
    turn: SourceTurn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFactReview:
    """The maintenance task that reviews held facts."""

    database: Database
    leases: LeaseStore
    model: LanguageModel

    async def run_agent(self, agent_id: str) -> int:
        """Review the held facts of an agent's ended sessions; return how many. Raises the errors of the
        model."""
        done = 0
        # the lease of the extraction: both change the same facts
        async with self.leases.hold(agent_id, CURSOR_NAME) as ours:
            for _ in range(MAX_CALLS):
                batch = await self._next(agent_id) if ours else None
                if batch is None:
                    break
                done += await self._review(agent_id, batch)
                ours = await self.leases.renew(agent_id, CURSOR_NAME)
        return done

    async def _next(self, agent_id: str) -> _ReviewBatch | None:
        """Return the facts to review next, of an ended session whose turns were all read; None without."""
        cursor = await read_cursor(self.database, agent_id, CURSOR_NAME)
        position = parse_position(cursor) if cursor else START
        async with agent_transaction(self.database, agent_id) as connection:
            held_facts = await HeldFactStore(connection, agent_id).list_unreviewed()
        ended_sessions = await list_ended(
            self.database, agent_id, {fact.session_id for fact in held_facts}
        )
        readers = await read_readers(self.database, agent_id)
        async with agent_transaction(self.database, agent_id) as connection:
            store = HeldFactStore(connection, agent_id)
            for session_id, facts in groupby(held_facts, lambda fact: fact.session_id):
                if session_id in ended_sessions and not await store.has_unread_turns(
                    session_id, position, MIN_TRUST
                ):
                    return _of_one_reader(session_id, list(facts), readers)
        return None

    async def _review(self, agent_id: str, batch: _ReviewBatch) -> int:
        session_id, reader, facts = batch.session_id, batch.reader, batch.facts
        async with agent_transaction(self.database, agent_id) as connection:
            store = HeldFactStore(connection, agent_id)
            material = _Material(
                facts,
                _select_turns(await store.list_user_turns(session_id, MIN_TRUST, reader), facts),
                await store.read_episodes(session_id, MIN_TRUST, reader),
            )
        # no transaction is open during the model's call
        supported = [] if material.is_empty else await self._judge(material)
        async with agent_transaction(self.database, agent_id) as connection:
            store = HeldFactStore(connection, agent_id)
            turn_ids = [item.turn.document_id for item in supported if item.turn is not None]
            if not await FactStore(connection, agent_id).lock_turns(turn_ids):
                return 0  # a turn was erased meanwhile: the next pass reviews the facts again
            links: list[Link] = []
            for item in supported:
                by: SupportKind = "episode" if item.turn is None else "transcript"
                if await store.promote(item.fact.document_id, by) and item.turn is not None:
                    evidence = item.turn.document_id
                    links.append(Link(item.fact.document_id, "evidence", evidence))
            await LinkStore(connection, agent_id).add(links)
            await store.mark_reviewed([fact.document_id for fact in facts])
        return len(facts)

    async def _judge(self, material: _Material) -> list[_SupportedFact]:
        """Return the supported facts; none if the model's answer is invalid, which is not asked for
        again."""
        instructions = (
            files("choir_memory.facts").joinpath("held_review_prompt.md").read_text("utf-8")
        )
        answer = await self.model.answer(instructions, material.render())
        try:
            claims = _SupportList.model_validate_json(_FENCE.sub("", answer)).supported
        except ValidationError:
            log.warning("the model's review of held facts is invalid", model=self.model.name)
            return []
        return list(_check(claims, material))


def _of_one_reader(
    session_id: str, facts: Sequence[HeldFact], readers: Sequence[MemoryReader]
) -> _ReviewBatch:
    """Return the first facts of a session that belong to the same reader."""
    reader = reader_of(facts[0].conversations, readers) if readers else None
    own = [it for it in facts if reader is None or reader_of(it.conversations, readers) == reader]
    return _ReviewBatch(session_id, reader, own[:MAX_FACTS])


def _check(claims: Sequence[_Support], material: _Material) -> Iterator[_SupportedFact]:
    """Yield each supported fact once, where the quotation is in a source that is not its evidence."""
    seen_ids: set[UUID] = set()
    for claim in claims:
        if not 1 <= claim.statement <= len(material.facts) or not claim.quote.strip():
            continue
        fact = material.facts[claim.statement - 1]
        if fact.document_id in seen_ids:
            continue
        turn: SourceTurn | None = None
        if 1 <= claim.source <= len(material.turns):
            turn = material.turns[claim.source - 1]
            is_new = turn.document_id not in fact.evidence
            is_supported = is_new and contains_quote(turn.text, claim.quote)
        else:
            is_episode = claim.source == len(material.turns) + 1
            is_supported = is_episode and contains_quote(material.episode, claim.quote)
        if is_supported:
            seen_ids.add(fact.document_id)
            yield _SupportedFact(fact, turn)


def _select_turns(turns: Sequence[SourceTurn], facts: Sequence[HeldFact]) -> list[SourceTurn]:
    """Return the turns that fit, those with most words of the facts first, in the order they were said."""
    words = frozenset(word for fact in facts for word in query_terms(fact.text))
    by_overlap = sorted(turns, key=lambda turn: -len(words & frozenset(query_terms(turn.text))))
    chosen_ids: set[UUID] = set()
    room = MAX_CHARS
    for turn in by_overlap:
        room -= len(turn.text)
        if room < 0:
            break
        chosen_ids.add(turn.document_id)
    return [turn for turn in turns if turn.document_id in chosen_ids]
