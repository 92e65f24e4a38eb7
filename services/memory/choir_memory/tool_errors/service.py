"""Store failures of tools and how they ended, and return hints when they happen again.

`store_failures` is called by `sessions.archive` with the page that contains them; `hints` by
`endpoints.hints`. A stored failure expires 90 days after it was last used, and is erased with its
session.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from choir_common.clock import Clock
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_recall import ReadHints, ToolHint, ToolHints
from choir_memory.documents.model import TRUST, Origin, document_id
from choir_memory.documents.store import Link, LinkStore
from choir_memory.knowledge.derived_store import (
    DerivedDocument,
    DerivedDocumentStore,
    prepare_derived,
)
from choir_memory.schema.store import SpaceRegistry, agent_transaction
from choir_memory.sessions.failure_tracker import EndedFailure
from choir_memory.tool_errors.similarity import parse_failure, similarity
from choir_memory.tool_errors.store import StoredFailure, ToolErrorStore

RETENTION = timedelta(days=90)
_NUMBERS = re.compile(r"\d+|0x[0-9a-f]+", re.IGNORECASE)


async def store_failures(
    held: Connection, agent_id: str, session_id: str, troubles: Sequence[EndedFailure]
) -> list[UUID]:
    """Store the failures of a session; requires the agent's role. Return the ids that need a vector."""
    # if a failure occurs twice in a page, the last outcome counts
    latest = {_id(session_id, trouble): trouble for trouble in troubles}
    documents = [_known(session_id, one, trouble) for one, trouble in latest.items()]
    written = await DerivedDocumentStore(held, agent_id).put(await prepare_derived(documents))
    await LinkStore(held, agent_id).add(
        [
            Link(one, "evidence", document_id(session_id, "rev", str(trouble.unit_rev), "0"))
            for one, trouble in latest.items()
        ]
    )
    return written


@dataclass(frozen=True, slots=True)
class ToolErrorService:
    """Hints about earlier failures of a tool."""

    database: Database
    spaces: SpaceRegistry
    clock: Clock

    async def hints(self, wanted: ReadHints) -> ToolHints:
        """Return earlier failures of the tool that match: resolved ones first, then by similarity."""
        await self.spaces.ensure(wanted.agent_id)
        now = self.clock.now()
        async with agent_transaction(self.database, wanted.agent_id) as held:
            store = ToolErrorStore(held, wanted.agent_id)
            found = _likest(wanted, await store.list_by_tool(wanted.tool, now))
            await store.extend_expiry([one.document_id for one in found], now + RETENTION)
        return ToolHints(hints=tuple(map(_hint, found)))


def _likest(wanted: ReadHints, known: Sequence[StoredFailure]) -> list[StoredFailure]:
    failure = parse_failure(wanted.said)
    scored = [(similarity(failure, parse_failure(one.said)), one) for one in known]
    near = [(score, one) for score, one in scored if score > 0]
    near.sort(key=lambda pair: (pair[1].outcome != "resolved", -pair[0]))
    different: dict[tuple[str, str], StoredFailure] = {}
    for (
        _,
        one,
    ) in near:  # newest first from the store; the stable sort keeps that order among equals
        different.setdefault((one.outcome, one.resolution or one.tried), one)
    return list(different.values())[: wanted.limit]


def _hint(one: StoredFailure) -> ToolHint:
    return ToolHint(
        document_id=str(one.document_id),
        at=one.at,
        said=one.said,
        tried=one.tried,
        outcome=one.outcome,
        helped=tuple(one.resolution.splitlines()),
        seen=one.seen,
    )


def _id(session_id: str, trouble: EndedFailure) -> UUID:
    said = _NUMBERS.sub("0", trouble.said.casefold())
    digest = hashlib.sha256(f"{said}\x00{trouble.tried}".encode()).hexdigest()
    return document_id(session_id, "error", trouble.tool, digest)


def _known(session_id: str, error_id: UUID, trouble: EndedFailure) -> DerivedDocument:
    at = datetime.fromisoformat(trouble.at)
    origin: Origin = "web" if trouble.outside else "tool"
    helped = "".join(f"\nWhat helped: {step}" for step in trouble.steps)
    return DerivedDocument(
        document_id=error_id,
        kind="error",
        text=f"{trouble.tool} failed: {trouble.said}\nTried: {trouble.tried}\n"
        f"How it ended: {trouble.end}{helped}",
        origin=origin,
        trust=TRUST[origin],
        category="tool",
        subject=trouble.tool,
        predicate=trouble.end,
        object="\n".join(trouble.steps),
        evidence=trouble.said,
        happened_at=at,
        expires_at=at + RETENTION,
        metadata={"session_id": session_id, "tried": trouble.tried},
    )
