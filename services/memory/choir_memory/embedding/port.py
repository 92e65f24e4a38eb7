"""What an embedder is, and how pgvector reads a vector. The adapters are `offline` and `provider`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from choir_memory.settings import OFFLINE_MODEL

Vector = Sequence[float]

BATCH = 32
"""Texts per call (spec 11.9)."""
BEYOND_LATIN = "\u0250"
LONGEST_WAIT_S = 300.0
"""Seconds a provider may put us off by Retry-After."""


class Embedder(Protocol):
    """Turns texts into vectors of one fixed length; `close` it after use."""

    name: str
    dimensions: int
    streams: int
    """Calls worth making at the same time."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector per text, in order; at most `BATCH` texts.

        Raises BadInput when a text cannot be embedded at all, and Unavailable, RateLimited or
        DeadlineExceeded when trying again may help.
        """
        ...

    async def close(self) -> None: ...


def reads(model: str, text: str) -> bool:
    """Tell whether this model's vectors say something about such a text.

    The offline model was trained on English: the cosines it gives Chinese find no better than chance.
    """
    if model != OFFLINE_MODEL:
        return True
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char < BEYOND_LATIN for char in letters) >= len(letters)


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector in pgvector's text form, and whose vectors it can be compared with."""

    model: int
    dimensions: int
    text: str


def render(vector: Vector) -> str:
    """Return pgvector's text form; five digits are more than half precision keeps."""
    return _form(len(vector)) % tuple(vector)


@lru_cache(maxsize=8)
def _form(dimensions: int) -> str:
    return f"[{','.join(['%.5g'] * dimensions)}]"
