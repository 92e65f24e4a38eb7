"""Makers for tests of what is derived from verbatim memory."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

from choir_common.errors import ChoirError, Unavailable
from choir_common.postgres.pool import Database
from choir_memory.text.tokens import document_tokens, tsvector

_INSERT = """
INSERT INTO choir_{agent}.memory_documents
    (id, session_id, tier, chunk_index, kind, speaker, text, tsv, tokens, happened_at, origin, trust)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::tsvector, $9, $10, $11, $12)
"""


@dataclass
class SetClock:
    """A clock that stands where it was set."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@dataclass
class ScriptedModel:
    """A language model that answers what it is given, in order, and then no more."""

    answers: list[str | ChoirError] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    name: str = "scripted"
    before_answer: Callable[[], object] | None = None

    async def answer(self, instructions: str, material: str) -> str:
        self.asked.append((instructions, material))
        said = self.answers.pop(0) if self.answers else Unavailable("The script is over.")
        if isinstance(said, ChoirError):
            raise said
        return said

    async def close(self) -> None:
        """Nothing to close."""


async def live_turns(
    database: Database,
    said: Sequence[tuple[str, str, str]],
    *,
    agent: str = "main",
    session: str = "s1",
    tier: str = "mid_term",
    kind: str = "turn",
    origin: str = "user",
    trust: int = 70,
) -> list[UUID]:
    """Store turns as archiving does: (time in UTC, speaker, text)."""
    first = await database.fetchval(
        f"SELECT coalesce(max(chunk_index) + 1, 0) FROM choir_{agent}.memory_documents"
        " WHERE session_id = $1",
        session,
    )
    ids = [uuid4() for _ in said]
    for place, (at, speaker, text) in enumerate(said):
        tokens = document_tokens(text)
        happened_at = datetime.fromisoformat(at).replace(tzinfo=UTC)
        await database.execute(
            _INSERT.replace("{agent}", agent),
            *(ids[place], session, tier, first + place, kind, speaker, text),
            *(tsvector(tokens), len(tokens), happened_at, origin, trust),
        )
    return ids


def propose(**fields: object) -> dict[str, object]:
    """Return a candidate as a model proposes it: that Ana only drinks green tea, or what `fields` say."""
    return {
        "kind": "fact",
        "category": "preference",
        "subject": "user",
        "predicate": "drinks",
        "object": "green tea",
        "text": "The user drinks green tea.",
        "quote": "I only drink green tea",
        "source": 1,
        "lasts": "lasting",
        "explicit": True,
        **fields,
    }


def answer(*candidates: dict[str, object]) -> str:
    """Return a model's answer that proposes these."""
    return json.dumps({"candidates": candidates})
