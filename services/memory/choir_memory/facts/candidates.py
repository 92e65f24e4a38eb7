"""Parse and validate the model's proposals of facts and rules: pure.

The model decides what matters; the checks here do not depend on it: every candidate rests on a verbatim
quotation, and only the user can set rules.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from choir_common.errors import InvalidRequest
from choir_common.redactor import MASK
from choir_common.wire.validation_messages import error_messages
from choir_memory.documents.model import Conversations
from choir_memory.facts.safety import weakens_safety
from choir_memory.text.tokens import query_terms

MAX_CANDIDATES = 40
"""Maximum per batch of 30 turns; a model that proposes more is not selective."""
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")
_SPACE = re.compile(r"\s+")

CandidateDecision = Literal["commit", "hold", "drop"]
FeedbackLabel = Literal["positive", "negative"]


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
    conversations: Conversations = None


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


class Feedback(BaseModel):
    """What the user thinks of the assistant's conduct in this session; it never becomes a fact or rule."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    label: FeedbackLabel
    quote: str = Field(min_length=1, max_length=400)
    source: int


class Proposals(BaseModel):
    """What the model found in a batch of turns."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    candidates: list[Candidate] = Field(max_length=MAX_CANDIDATES)
    feedback: list[Feedback] = []

    @field_validator("feedback", mode="before")
    @classmethod
    def _drop_invalid(cls, value: object) -> list[Feedback]:
        # facts must not be lost for a fault in what is not learned
        items = value[:MAX_CANDIDATES] if isinstance(value, list) else []
        valid: list[Feedback] = []
        for item in items:
            with contextlib.suppress(ValidationError):
                valid.append(Feedback.model_validate(item))
        return valid


def parse_proposals(answer: str) -> Proposals:
    """Return the proposals; raises InvalidRequest with an explanation for the model."""
    try:
        return Proposals.model_validate_json(_FENCE.sub("", answer.strip()))
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "answer")[:5])
        raise InvalidRequest(f"The answer does not match the schema: {faults}.") from None


def decide_on(
    candidate: Candidate, turns: Sequence[SourceTurn], feedback: Sequence[Feedback] = ()
) -> CandidateDecision:
    """Decide about a candidate: commit it as active, hold it until it is supported, or drop it."""
    source = find_source(candidate, turns)
    if source is None or candidate.lasts == "passing":
        return "drop"
    if candidate.category.casefold() == "feedback" or _is_feedback(candidate, feedback):
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


def find_feedback(
    feedback: Sequence[Feedback], turns: Sequence[SourceTurn]
) -> list[tuple[Feedback, SourceTurn]]:
    """Return the feedback that is a quotation of the user, with its turns; one of each label per turn."""
    sourced = {
        (item.label, turn.document_id): (item, turn)
        for item in feedback
        if (turn := find_source(item, turns)) is not None and turn.by_user
    }
    return list(sourced.values())


def _is_feedback(candidate: Candidate, feedback: Sequence[Feedback]) -> bool:
    # the same words cannot be both, whatever the model makes of them
    quote = _plain(candidate.quote)
    return any(
        item.source == candidate.source
        and (quote in _plain(item.quote) or _plain(item.quote) in quote)
        for item in feedback
    )


def find_source(candidate: Candidate | Feedback, turns: Sequence[SourceTurn]) -> SourceTurn | None:
    """Return the turn that contains the candidate's quotation, or None."""
    if not 1 <= candidate.source <= len(turns):
        return None
    turn = turns[candidate.source - 1]
    return turn if contains_quote(turn.text, candidate.quote) else None


def contains_quote(text: str, quote: str) -> bool:
    """Return whether a text contains a quotation, regardless of case and white space."""
    return _plain(quote) in _plain(text)


def render_turns(turns: Sequence[SourceTurn]) -> str:
    """Return the turns as the model reads them: numbered, dated, quoted."""
    return "\n".join(
        f"> {number}. [{turn.happened_at:%Y-%m-%d %H:%M}] {turn.speaker}: {_SPACE.sub(' ', turn.text)}"
        for number, turn in enumerate(turns, 1)
    )


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip().casefold()
