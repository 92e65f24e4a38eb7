"""A document in the result list of an arm. Built by the arms' stores, used by `fuse`."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Record

ARM_DEPTH = 30
"""Documents per arm that are ranked with their neighbours; more if the query has a higher limit.

With 50, 100 and 200 the measured quality of search changed in the third digit only.
"""


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
    """Convert an arm's rows: id, place, score, session_id, chunk_index."""
    return [
        Scored(row["id"], row["place"], row["score"], row["session_id"], row["chunk_index"])
        for row in rows
    ]
