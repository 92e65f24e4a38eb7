"""The shape of `.bench/memory.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.bench.figures import percentile


@dataclass(frozen=True, slots=True)
class SpaceFigures:
    """Hybrid search in one space, through the whole service, beside the floor; milliseconds."""

    documents: int
    p50_ms: float
    p99_ms: float
    floor_p50_ms: float
    """A plain pgvector query for ten rows and the same call for the question's vector."""
    floor_p99_ms: float
    service_cpu_ms: float
    """Of one search; Postgres' own beside it, and what the floor's query takes there."""
    postgres_cpu_ms: float
    floor_cpu_ms: float
    per_s: int
    """Fifty searching at once; the floor by turns with them."""
    at_once_p99_ms: float
    floor_per_s: int
    recall_at_10: float
    """Of the vector arm, against an exact scan."""
    floor_recall_at_10: float
    """pgvector as it is set by default."""
    found: float
    """Share of questions whose document is among the first ten."""
    index_s: float
    """Until the index was there; 0: too small for one, or it was there before."""
    kb_vectors: float
    """Disk per document: vectors as stored, their index, the text index, all with the text."""
    kb_vector_index: float
    kb_text_index: float
    kb_all: float


@dataclass(frozen=True, slots=True)
class IngestFigures:
    """Writing through the service."""

    documents: int
    per_s: float
    """Until the last one has its vector."""
    acknowledged_per_s: float
    one_p50_ms: float
    """Acknowledged; the vector follows. The floor has made it by then."""
    one_p99_ms: float
    floor_per_s: int
    floor_one_p50_ms: float
    floor_one_p99_ms: float


@dataclass(frozen=True, slots=True)
class CrowdFigures:
    """Searches at once over the spaces of several agents, by turns with the floor."""

    agents: int
    documents: int
    """Of each."""
    at_once: int
    per_s: int
    p50_ms: float
    p99_ms: float
    floor_per_s: int
    floor_p50_ms: float
    floor_p99_ms: float


@dataclass(frozen=True, slots=True)
class SchemaFigures:
    """What an agent's schema costs before anything is in it."""

    agents: int
    made_p50_ms: float
    made_p99_ms: float
    made_last_p50_ms: float
    """Of the last hundred: does it get slower?"""
    made_cpu_ms: float
    kb_each: float
    kb_catalog: float
    """Of these, the catalogs' share."""
    relations: float
    """Rows in `pg_class` for each."""
    connection_mb: float
    """The heaviest connection of the service after it has touched them all."""
    restart_s: float
    """Until a service started anew is ready."""


@dataclass(slots=True)
class Results:
    """All figures of one run."""

    schemas: SchemaFigures | None = None
    ingest: IngestFigures | None = None
    spaces: list[SpaceFigures] = field(default_factory=list)
    crowd: CrowdFigures | None = None
    service_mb: float = 0
    postgres_mb: float = 0

    def write(self, path: Path) -> None:
        """Write them as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")


def p50_and_p99(seconds: Sequence[float]) -> tuple[float, float]:
    """Return both in milliseconds."""
    return round(percentile(seconds, 0.5) * 1000, 2), round(percentile(seconds, 0.99) * 1000, 2)
