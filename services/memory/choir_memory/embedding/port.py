"""What an embedder is, and how pgvector reads a vector. The adapters are `offline` and `provider`."""

from collections.abc import Sequence
from typing import Protocol

Vector = Sequence[float]

BATCH = 32
"""Texts per call (spec 11.9)."""


class Embedder(Protocol):
    """Turns texts into vectors of one fixed length; `close` it after use."""

    name: str
    dimensions: int

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector per text, in order; at most `BATCH` texts.

        Raises BadInput when a text cannot be embedded at all, and Unavailable, RateLimited or
        DeadlineExceeded when trying again may help.
        """
        ...

    async def close(self) -> None: ...


def render(vector: Vector) -> str:
    """Return pgvector's text form; five digits are more than half precision keeps."""
    return f"[{','.join(f'{value:.5g}' for value in vector)}]"
