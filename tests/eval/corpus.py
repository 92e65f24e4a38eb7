"""What an evaluation is made of: spaces that are searched apart, their units and their questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Unit:
    """One turn or event; its position counts within its session."""

    id: str
    text: str
    at: datetime
    speaker: str | None
    session: str
    position: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the ids of the units that hold its answer."""

    text: str
    evidence: frozenset[str]
    category: str = "all"


@dataclass(frozen=True, slots=True)
class Space:
    """One conversation or diary: never searched together with another."""

    name: str
    units: Sequence[Unit]
    questions: Sequence[Question]
