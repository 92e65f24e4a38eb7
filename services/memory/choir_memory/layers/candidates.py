"""Read what a model proposes to remember, and hold it to rules of our own: pure. Called by `extraction`.

The model judges what matters; the guards here are not its to judge: every candidate rests on words that stand
so in the conversation, and nobody but the user makes rules.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from choir_common.errors import BadInput
from choir_common.redactor import MASK
from choir_common.wire.faults import faults_of
from choir_memory.layers.safety import weakens_safety
from choir_memory.words.tokens import query_terms

MAX_CANDIDATES = 40
"""Of one batch; a model that finds more in thirty lines finds too much."""
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")
_SPACE = re.compile(r"\s+")

Ruling = Literal["commit", "hold", "drop"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A line of the conversation that a model may draw from."""

    document_id: UUID
    session_id: str
    speaker: str
    happened_at: datetime
    text: str
    by_user: bool
    trust: int


class Candidate(BaseModel):
    """Something a model would remember."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Literal["fact", "rule"]
    category: str = Field(min_length=1, max_length=60)
    subject: str = Field(min_length=1, max_length=200)
    predicate: str = Field(min_length=1, max_length=200)
    object: str = Field(min_length=1, max_length=500)
    text: str = Field(min_length=1, max_length=1_000)
    quote: str = Field(min_length=1, max_length=400)
    source: int
    lasts: Literal["lasting", "unsure", "passing"]
    explicit: bool
    unsafe: bool = False
    """The model's own judgement: it would have a check, a warning or an approval left out."""

    @property
    def identity(self) -> str:
        """Return what two ways of saying the same have in common."""
        parts = (self.kind, self.subject, self.predicate, self.object)
        return "\x1f".join(" ".join(query_terms(part)) for part in parts)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore")

    candidates: list[Candidate] = Field(max_length=MAX_CANDIDATES)


def read_candidates(answer: str) -> list[Candidate]:
    """Return what the model proposes; raises BadInput with what is wrong, in words for the model."""
    try:
        return _Answer.model_validate_json(_FENCE.sub("", answer.strip())).candidates
    except ValidationError as error:
        said = "; ".join(faults_of(error, "answer")[:5])
        raise BadInput(f"The answer does not fit: {said}.") from None


def rule_on(candidate: Candidate, turns: Sequence[Turn]) -> Ruling:
    """Return what becomes of a candidate: kept at once, held until it is said again, or dropped."""
    source = source_of(candidate, turns)
    if source is None or candidate.lasts == "passing":
        return "drop"
    whole = f"{candidate.text}{candidate.object}{candidate.quote}"
    if MASK in whole or "\x00" in whole:
        return "drop"
    if candidate.kind == "rule" and not source.by_user:
        return "drop"
    if _is_wish(candidate) and (candidate.unsafe or weakens_safety(_said(candidate))):
        return "drop"
    return "commit" if candidate.explicit and candidate.lasts == "lasting" else "hold"


def _is_wish(candidate: Candidate) -> bool:
    # what the user prefers is kept as a fact, and says the same as a rule
    return candidate.kind == "rule" or candidate.category.casefold() == "preference"


def _said(candidate: Candidate) -> str:
    told = f"{candidate.predicate} {candidate.object}"
    return "\n".join((candidate.text, told, candidate.quote))


def source_of(candidate: Candidate, turns: Sequence[Turn]) -> Turn | None:
    """Return the line a candidate rests on; none if its quotation does not stand there."""
    if not 1 <= candidate.source <= len(turns):
        return None
    turn = turns[candidate.source - 1]
    return turn if _plain(candidate.quote) in _plain(turn.text) else None


def shown(turns: Sequence[Turn]) -> str:
    """Return the lines as the model reads them: numbered, dated, quoted."""
    return "\n".join(
        f"> {number}. [{turn.happened_at:%Y-%m-%d %H:%M}] {turn.speaker}: {_SPACE.sub(' ', turn.text)}"
        for number, turn in enumerate(turns, 1)
    )


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip().casefold()
