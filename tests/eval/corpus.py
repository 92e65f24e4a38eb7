"""Data model of an evaluation: spaces that are searched separately, with units and questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Unit:
    """One turn or event; `position` is its index in its session."""

    id: str
    text: str
    at: datetime
    speaker: str | None
    session: str
    position: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the ids of the units that contain its answer."""

    text: str
    evidence: frozenset[str]
    category: str = "all"


@dataclass(frozen=True, slots=True)
class Space:
    """One conversation or diary; spaces are never searched together."""

    name: str
    units: Sequence[Unit]
    questions: Sequence[Question]
    language: str | None = None
    """If the data set has several."""
