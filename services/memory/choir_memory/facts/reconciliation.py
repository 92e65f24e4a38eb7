"""Compare a new fact with the stored ones: a repetition, a replacement, or an additional fact.

Cheap comparisons come first: same words, nearly the same words, same meaning.
Only a possible contradiction is decided by the model.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import ChoirError
from choir_memory.embedding.embedder import QueryVector
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.facts.candidates import Candidate
from choir_memory.facts.store import FactStore, StoredFact
from choir_memory.llm.model import LanguageModel
from choir_memory.text.tokens import query_terms

SAME_WORDS_SIMILARITY = 0.85
"""Jaccard similarity of two texts' words from which they are the same statement."""
SAME_MEANING_COSINE = 0.97
"""Cosine similarity from which two texts are the same statement."""
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")


class _Decision(BaseModel):
    model_config = ConfigDict(extra="ignore")

    case: int
    decision: Literal["supersede", "coexist"]


class _DecisionList(BaseModel):
    model_config = ConfigDict(extra="ignore")

    decisions: list[_Decision]


@dataclass(frozen=True, slots=True)
class RelatedFacts:
    """Stored facts that concern a candidate."""

    same: StoredFact | None = None
    rivals: tuple[StoredFact, ...] = ()
    """Active facts with the same subject and predicate, but a different object."""


async def embed_candidate(embedders: EmbedderRegistry, candidate: Candidate) -> QueryVector | None:
    """Return a candidate's vector, or None without an embedder; at worst a fact is then stored twice."""
    try:
        return await embedders.embed_query(candidate.text)
    except ChoirError:
        return None


async def find_related(
    store: FactStore, candidate: Candidate, vector: QueryVector | None
) -> RelatedFacts:
    """Return the stored fact with the same meaning, or else those that may contradict it."""
    facts = await store.list_by_subject(candidate.kind, candidate.subject)
    words = frozenset(query_terms(candidate.text))
    for fact in facts:
        if (
            _identity(candidate.kind, fact) == candidate.identity
            or _jaccard(words, fact) >= SAME_WORDS_SIMILARITY
        ):
            return RelatedFacts(fact)
    if vector is not None:
        nearest = await store.find_nearest(candidate.kind, vector, SAME_MEANING_COSINE)
        if nearest is not None:
            return RelatedFacts(nearest)
    predicate_terms = query_terms(candidate.predicate)
    rivals = (fact for fact in facts if query_terms(fact.predicate or "") == predicate_terms)
    return RelatedFacts(rivals=tuple(rival for rival in rivals if rival.status == "active"))


async def decide_replacements(
    model: LanguageModel, cases: Sequence[tuple[StoredFact, Candidate]]
) -> list[bool]:
    """Return for each case whether the newer fact replaces the older; False where the model does not
    decide."""
    if not cases:
        return []
    material = "\n".join(
        f"> {number}. older: {_line(old.text)} | newer: {_line(new.text)}"
        for number, (old, new) in enumerate(cases, 1)
    )
    instructions = (
        files("choir_memory.facts").joinpath("reconciliation_prompt.md").read_text("utf-8")
    )
    try:
        answer = _FENCE.sub("", await model.answer(instructions, material))
        decided = _DecisionList.model_validate_json(answer).decisions
    except (ChoirError, ValidationError):
        decided = []
    replaced = {decision.case for decision in decided if decision.decision == "supersede"}
    return [number in replaced for number in range(1, len(cases) + 1)]


def _identity(kind: str, fact: StoredFact) -> str:
    parts = (kind, fact.subject or "", fact.predicate or "", fact.object or "")
    return "\x1f".join(" ".join(query_terms(part)) for part in parts)


def _jaccard(words: frozenset[str], fact: StoredFact) -> float:
    other = frozenset(query_terms(fact.text))
    union = len(words | other)
    return len(words & other) / union if union else 0.0


def _line(text: str) -> str:
    return " ".join(text.split())
