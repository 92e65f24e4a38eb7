"""Evaluate what searches of knowledge and reminders return by default: `python -m tests.eval.precision`.

Each case names the documents that must be returned and those that must not: superseded and ended ones, those
of another scope or of a similar name, and those about something else. A case about something that memory
does not contain passes only if nothing is returned.
"""

import asyncio
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from choir_common.clients.memory import NatsMemoryClient
from choir_common.wire.memory_recall import ReadReminders
from choir_common.wire.memory_search import EnsureSpace, MemoryQuery, MemoryUpsert
from tests.eval.harness import Harness, running_harness

CASES = Path("tests/eval/data/precision")
DEADLINE_MS = 9_000
VECTORS_S = 600.0


@dataclass(frozen=True, slots=True)
class KnowledgeText:
    """A document to write, with its key."""

    key: str
    text: str
    scope: str | None = None
    supersedes: tuple[str, ...] = ()
    ended_days_ago: int | None = None


@dataclass(frozen=True, slots=True)
class PrecisionCase:
    """A query, the documents that it must return, and those that it must not."""

    kind: str
    query: str
    wanted: frozenset[str]
    unwanted: frozenset[str]
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PrecisionSpace:
    """The knowledge of one agent, and the cases about it."""

    language: str
    documents: Sequence[KnowledgeText]
    cases: Sequence[PrecisionCase]


@dataclass(frozen=True, slots=True)
class PrecisionOutcome:
    """What a case got, by key, best first."""

    language: str
    case: PrecisionCase
    source: str
    """`query` or `reminders`."""
    returned: tuple[str, ...]

    @property
    def missing(self) -> frozenset[str]:
        return self.case.wanted.difference(self.returned)

    @property
    def surplus(self) -> frozenset[str]:
        return self.case.unwanted.intersection(self.returned)

    @property
    def passed(self) -> bool:
        return not self.missing and not self.surplus


def read_precision(path: Path) -> list[PrecisionSpace]:
    """Read the cases of all languages from the directory, one file per language."""
    return [_space(tomllib.loads(file.read_text())) for file in sorted(path.glob("*.toml"))]


def _space(given: Mapping[str, Any]) -> PrecisionSpace:
    documents = [
        KnowledgeText(
            one["id"],
            one["text"],
            one.get("scope"),
            tuple(one.get("supersedes", ())),
            one.get("ended_days_ago"),
        )
        for one in given["document"]
    ]
    keys = frozenset(document.key for document in documents)
    return PrecisionSpace(given["language"], documents, [_case(one, keys) for one in given["case"]])


def _case(given: Mapping[str, Any], keys: frozenset[str]) -> PrecisionCase:
    wanted = frozenset(given.get("include", ()))
    unwanted = keys if given.get("absent") else frozenset(given["exclude"])
    if unknown := (wanted | unwanted) - keys:
        raise ValueError(f"{given['query']} names unknown documents: {sorted(unknown)}")
    return PrecisionCase(
        given["kind"], given["query"], wanted, unwanted, tuple(given.get("scopes", ()))
    )


async def measure_precision(
    harness: Harness, spaces: Sequence[PrecisionSpace]
) -> list[PrecisionOutcome]:
    """Write the documents of all spaces, then run each case as a query and as a message."""
    memory = NatsMemoryClient(harness.bus)
    names = [await _write(memory, number, space) for number, space in enumerate(spaces)]
    await harness.wait_for_vectors(lambda _: None, VECTORS_S)
    return [
        outcome
        for number, (space, key_of) in enumerate(zip(spaces, names, strict=True))
        for case in space.cases
        for outcome in await _run(memory, _agent(number), space.language, case, key_of)
    ]


def _agent(number: int) -> str:
    return f"precise{number}"


async def _write(memory: NatsMemoryClient, number: int, space: PrecisionSpace) -> dict[str, str]:
    """Write the documents in order; return the key of each id."""
    agent_id, now = _agent(number), datetime.now(UTC)
    await memory.ensure(EnsureSpace(agent_id=agent_id))
    key_of = {}
    for document in space.documents:
        days = document.ended_days_ago
        result = await memory.upsert(
            MemoryUpsert(
                agent_id=agent_id,
                call_id=document.key,
                operation="insert",
                key=document.key,
                text=document.text,
                metadata={"scope": document.scope} if document.scope else {},
                supersedes=document.supersedes,
                valid_to=None if days is None else now - timedelta(days=days),
            )
        )
        key_of[str(result.document_id)] = document.key
    return key_of


async def _run(
    memory: NatsMemoryClient,
    agent_id: str,
    language: str,
    case: PrecisionCase,
    key_of: Mapping[str, str],
) -> list[PrecisionOutcome]:
    hits = await memory.query(
        MemoryQuery(
            agent_id=agent_id,
            store="knowledge",
            query=case.query,
            scopes=case.scopes,
            deadline_ms=DEADLINE_MS,
        )
    )
    reminders = await memory.remind(
        ReadReminders(
            agent_id=agent_id,
            session_id="now",
            text=case.query,
            scopes=case.scopes,
            deadline_ms=DEADLINE_MS,
        )
    )
    hit_keys = tuple(key_of[hit.document_id] for hit in hits.hits)
    reminder_keys = tuple(key_of[one.document_id] for one in reminders.reminders)
    return [
        PrecisionOutcome(language, case, "query", hit_keys),
        PrecisionOutcome(language, case, "reminders", reminder_keys),
    ]


def count_passed(outcomes: Iterable[PrecisionOutcome], source: str) -> int:
    """Return how many cases passed, of the queries or of the reminders."""
    return sum(outcome.passed for outcome in outcomes if outcome.source == source)


async def main() -> None:
    """Measure all cases; print those that failed, and the counts by kind and language."""
    async with running_harness() as harness:
        outcomes = await measure_precision(harness, read_precision(CASES))
    for outcome in outcomes:
        if not outcome.passed:
            print(
                f"{outcome.source} {outcome.language} {outcome.case.kind}: {outcome.case.query} "
                f"missing {sorted(outcome.missing)}, surplus {sorted(outcome.surplus)}"
            )
    for source in ("query", "reminders"):
        for name, group in _groups(outcomes, source).items():
            print(f"{source} {name}: {count_passed(group, source)} of {len(group)}")


def _groups(outcomes: Sequence[PrecisionOutcome], source: str) -> dict[str, list[PrecisionOutcome]]:
    groups: dict[str, list[PrecisionOutcome]] = {"all": []}
    for outcome in outcomes:
        if outcome.source == source:
            for name in ("all", outcome.language, outcome.case.kind):
                groups.setdefault(name, []).append(outcome)
    return groups


if __name__ == "__main__":
    asyncio.run(main())
