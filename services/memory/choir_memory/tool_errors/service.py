"""Store failures of tools and how they ended, and return hints when they happen again.

A stored failure expires 90 days after it was last used, and is erased with its session.
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


@dataclass(frozen=True, slots=True)
class ToolErrorService:
    """Store for failures of tools, and source of hints about them."""

    database: Database
    spaces: SpaceRegistry
    clock: Clock

    async def store_failures(
        self,
        connection: Connection,
        agent_id: str,
        session_id: str,
        failures: Sequence[EndedFailure],
    ) -> list[UUID]:
        """Store the failures of a session; requires the agent's role.

        Return the ids that need a vector.
        """
        # if a failure occurs twice in a page, the last outcome counts
        latest = {_id(session_id, failure): failure for failure in failures}
        documents = [_build_document(session_id, *item) for item in latest.items()]
        document_ids = await DerivedDocumentStore(connection, agent_id).put(
            await prepare_derived(documents)
        )
        await LinkStore(connection, agent_id).add(
            [
                Link(
                    error_id, "evidence", document_id(session_id, "rev", str(failure.unit_rev), "0")
                )
                for error_id, failure in latest.items()
            ]
        )
        return document_ids

    async def hints(self, request: ReadHints) -> ToolHints:
        """Return earlier failures of the tool that match: resolved ones first, then by similarity."""
        await self.spaces.ensure(request.agent_id)
        now = self.clock.now()
        async with agent_transaction(self.database, request.agent_id) as connection:
            store = ToolErrorStore(connection, request.agent_id)
            failures = await store.list_by_tool(request.tool, now, request.reader)
            matches = _select_matches(request, failures)
            await store.extend_expiry([match.document_id for match in matches], now + RETENTION)
        return ToolHints(hints=tuple(map(_hint, matches)))


def _select_matches(request: ReadHints, failures: Sequence[StoredFailure]) -> list[StoredFailure]:
    error = parse_failure(request.said)
    scored = [(similarity(error, parse_failure(failure.message)), failure) for failure in failures]
    matches = [(score, failure) for score, failure in scored if score > 0]
    # the store returns the newest first; the sort is stable and keeps that order among equals
    matches.sort(key=lambda pair: (pair[1].outcome != "resolved", -pair[0]))
    distinct: dict[tuple[str, str], StoredFailure] = {}
    for _, failure in matches:
        distinct.setdefault((failure.outcome, failure.resolution or failure.tried), failure)
    return list(distinct.values())[: request.limit]


def _hint(failure: StoredFailure) -> ToolHint:
    return ToolHint(
        document_id=str(failure.document_id),
        at=failure.at,
        said=failure.message,
        tried=failure.tried,
        outcome=failure.outcome,
        helped=tuple(failure.resolution.splitlines()),
        seen=failure.seen,
        trust=failure.trust,
    )


def _id(session_id: str, failure: EndedFailure) -> UUID:
    message = _NUMBERS.sub("0", failure.message.casefold())
    digest = hashlib.sha256(f"{message}\x00{failure.tried}".encode()).hexdigest()
    return document_id(session_id, "error", failure.tool, digest)


def _build_document(session_id: str, error_id: UUID, failure: EndedFailure) -> DerivedDocument:
    at = datetime.fromisoformat(failure.at)
    origin: Origin = "web" if failure.outside else "tool"
    helped = "".join(f"\nFix: {step}" for step in failure.steps)
    return DerivedDocument(
        document_id=error_id,
        kind="error",
        text=f"{failure.tool} failed: {failure.message}\nTried: {failure.tried}\n"
        f"How it ended: {failure.end}{helped}",
        origin=origin,
        trust=TRUST[origin],
        category="tool",
        subject=failure.tool,
        predicate=failure.end,
        object="\n".join(failure.steps),
        evidence=failure.message,
        happened_at=at,
        expires_at=at + RETENTION,
        metadata={"session_id": session_id, "tried": failure.tried},
        conversations=failure.conversations,
    )
