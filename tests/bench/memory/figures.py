"""Result types of the memory benchmark, which are the format of `.bench/memory.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.bench.figures import percentile


@dataclass(frozen=True, slots=True)
class SpaceFigures:
    """Hybrid search in one agent's memory, through the whole service, and the baseline; milliseconds."""

    documents: int
    p50_ms: float
    p99_ms: float
    floor_p50_ms: float
    """A plain pgvector query for ten rows, including the same embedding call for the question."""
    floor_p99_ms: float
    service_cpu_ms: float
    """CPU time per search: of the service, of Postgres, and of Postgres for the baseline's query."""
    postgres_cpu_ms: float
    floor_cpu_ms: float
    per_s: int
    """Searches per second with fifty at once, alternating with the baseline."""
    at_once_p99_ms: float
    floor_per_s: int
    recall_at_10: float
    """Recall of the vector arm against an exact scan."""
    floor_recall_at_10: float
    """Recall of pgvector with its default settings."""
    found: float
    """Share of questions whose document is among the first ten."""
    index_s: float
    """Seconds until the index was built; 0 if the memory is too small for one, or already had one."""
    kb_vectors: float
    """Disk space per document: the stored vectors, their index, the text index, and all with the text."""
    kb_vector_index: float
    kb_text_index: float
    kb_all: float


@dataclass(frozen=True, slots=True)
class IngestFigures:
    """Writes through the service."""

    documents: int
    per_s: float
    """Documents per second until the last one has its vector."""
    acknowledged_per_s: float
    one_p50_ms: float
    """Time until one write is acknowledged, before its vector exists; the baseline includes the vector."""
    one_p99_ms: float
    floor_per_s: int
    floor_one_p50_ms: float
    floor_one_p99_ms: float


@dataclass(frozen=True, slots=True)
class ConcurrentFigures:
    """Concurrent searches over the memories of several agents, alternating with the baseline."""

    agents: int
    documents: int
    """Documents per agent."""
    at_once: int
    per_s: int
    p50_ms: float
    p99_ms: float
    floor_per_s: int
    floor_p50_ms: float
    floor_p99_ms: float


@dataclass(frozen=True, slots=True)
class SchemaFigures:
    """Cost of an agent's empty schema."""

    agents: int
    made_p50_ms: float
    made_p99_ms: float
    made_last_p50_ms: float
    """Median of the last hundred, which shows whether creation becomes slower."""
    made_cpu_ms: float
    kb_each: float
    kb_catalog: float
    """The part of `kb_each` in the system catalogs."""
    relations: float
    """Rows in `pg_class` per schema."""
    connection_mb: float
    """Memory of the service's largest connection after it has queried all schemas."""
    restart_s: float
    """Seconds until the restarted service is ready."""


@dataclass(slots=True)
class MemoryBenchResults:
    """All figures of one run."""

    schemas: SchemaFigures | None = None
    ingest: IngestFigures | None = None
    spaces: list[SpaceFigures] = field(default_factory=list)
    crowd: ConcurrentFigures | None = None
    service_mb: float = 0
    postgres_mb: float = 0

    def write(self, path: Path) -> None:
        """Write the figures as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")


def p50_and_p99(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile in milliseconds."""
    return round(percentile(seconds, 0.5) * 1000, 2), round(percentile(seconds, 0.99) * 1000, 2)
