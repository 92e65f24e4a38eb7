"""What an arm says of a document. Made by the arms' stores, weighed by `fuse`."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Record

ARM_DEPTH = 30
"""Documents each arm names, which are weighed with their neighbours; as many as are wanted, if that is more.
With 50, 100 and 200 what is found was measured to change in the third digit."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A document in the list of one arm; `rank` counts from 1.

    Its neighbours are the documents of the same `session_id` (or collection) at `chunk_index` ± 1.
    """

    document_id: UUID
    rank: int
    score: float
    session_id: str | None = None
    chunk_index: int | None = None


def scored_rows(rows: Iterable[Record]) -> list[Scored]:
    """Read an arm's rows: id, place, score, session_id, chunk_index."""
    return [
        Scored(row["id"], row["place"], row["score"], row["session_id"], row["chunk_index"])
        for row in rows
    ]
