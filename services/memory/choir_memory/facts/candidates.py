"""Parse and validate the model's proposals of facts and rules: pure.

The model decides what matters; the checks here do not depend on it: every candidate rests on a verbatim
quotation, and only the user can set rules.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from choir_common.errors import InvalidRequest
from choir_common.redactor import MASK
from choir_common.wire.validation_messages import error_messages
from choir_memory.facts.safety import weakens_safety
from choir_memory.text.tokens import query_terms

MAX_CANDIDATES = 40
"""Maximum per batch of 30 turns; a model that proposes more is not selective."""
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")
_SPACE = re.compile(r"\s+")

CandidateDecision = Literal["commit", "hold", "drop"]


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """A message of the conversation from which the model may extract."""

    document_id: UUID
    session_id: str
    speaker: str
    happened_at: datetime
    text: str
    by_user: bool
    trust: int


class Candidate(BaseModel):
    """A fact or rule that the model proposes."""

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
    """The model's judgement that the rule would skip a check, a warning or an approval."""

    @property
    def identity(self) -> str:
        """Return a normalised key, equal for different phrasings of the same statement."""
        parts = (self.kind, self.subject, self.predicate, self.object)
        return "\x1f".join(" ".join(query_terms(part)) for part in parts)


class _CandidateList(BaseModel):
    model_config = ConfigDict(extra="ignore")

    candidates: list[Candidate] = Field(max_length=MAX_CANDIDATES)


def parse_candidates(answer: str) -> list[Candidate]:
    """Return the proposals; raises InvalidRequest with an explanation for the model."""
    try:
        return _CandidateList.model_validate_json(_FENCE.sub("", answer.strip())).candidates
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "answer")[:5])
        raise InvalidRequest(f"The answer does not match the schema: {faults}.") from None


def decide_on(candidate: Candidate, turns: Sequence[SourceTurn]) -> CandidateDecision:
    """Decide about a candidate: commit it as active, hold it until it is repeated, or drop it."""
    source = find_source(candidate, turns)
    if source is None or candidate.lasts == "passing":
        return "drop"
    all_text = f"{candidate.text}{candidate.object}{candidate.quote}"
    if MASK in all_text or "\x00" in all_text:
        return "drop"
    if candidate.kind == "rule" and not source.by_user:
        return "drop"
    if _is_wish(candidate) and (candidate.unsafe or weakens_safety(_render_statement(candidate))):
        return "drop"
    return "commit" if candidate.explicit and candidate.lasts == "lasting" else "hold"


def _is_wish(candidate: Candidate) -> bool:
    # extracted as a fact, but it has the effect of a rule
    return candidate.kind == "rule" or candidate.category.casefold() == "preference"


def _render_statement(candidate: Candidate) -> str:
    predicate_and_object = f"{candidate.predicate} {candidate.object}"
    return "\n".join((candidate.text, predicate_and_object, candidate.quote))


def find_source(candidate: Candidate, turns: Sequence[SourceTurn]) -> SourceTurn | None:
    """Return the turn that contains the candidate's quotation, or None."""
    if not 1 <= candidate.source <= len(turns):
        return None
    turn = turns[candidate.source - 1]
    return turn if _plain(candidate.quote) in _plain(turn.text) else None


def render_turns(turns: Sequence[SourceTurn]) -> str:
    """Return the turns as the model reads them: numbered, dated, quoted."""
    return "\n".join(
        f"> {number}. [{turn.happened_at:%Y-%m-%d %H:%M}] {turn.speaker}: {_SPACE.sub(' ', turn.text)}"
        for number, turn in enumerate(turns, 1)
    )


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip().casefold()
