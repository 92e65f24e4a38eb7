"""Interface of embedders, and pgvector's text form of vectors. The adapters are `offline` and `provider`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from choir_memory.settings import OFFLINE_MODEL

Vector = Sequence[float]

BATCH = 32
"""Maximum number of texts per call."""
BEYOND_LATIN = "\u0250"
LONGEST_WAIT_S = 300.0
"""Maximum delay in seconds that a provider can request by Retry-After."""


class Embedder(Protocol):
    """Converter of texts to vectors of one fixed length; call `close` after use."""

    name: str
    dimensions: int
    streams: int
    """Number of useful concurrent calls."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in order; at most `BATCH` texts.

        Raises BadInput when a text cannot be embedded at all, and Unavailable, RateLimited or
        DeadlineExceeded when a retry may help.
        """
        ...

    async def close(self) -> None: ...


def reads(model: str, text: str) -> bool:
    """Return whether this model's vectors are meaningful for such a text.

    The offline model was trained on English: for Chinese its similarities are no better than chance.
    """
    if model != OFFLINE_MODEL:
        return True
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char < BEYOND_LATIN for char in letters) >= len(letters)


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector in pgvector's text form, and the id of the model it belongs to."""

    model: int
    dimensions: int
    text: str


def render(vector: Vector) -> str:
    """Return pgvector's text form; five digits exceed the precision of halfvec."""
    return _form(len(vector)) % tuple(vector)


@lru_cache(maxsize=8)
def _form(dimensions: int) -> str:
    return f"[{','.join(['%.5g'] * dimensions)}]"
