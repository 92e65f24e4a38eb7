"""Decide which vector indexes a space should have. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

DROP_FACTOR = 4
"""An index is dropped when the space has this many times fewer rows than are needed to create one."""

GRAPH_BYTES = 1_000
"""Memory per vector during an index build, in addition to the vector: its neighbours and their distances."""
MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """An index over the vectors of one model; not valid if its build was interrupted."""

    name: str
    valid: bool


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A vector table that is large or has an index."""

    agent_id: str
    table: str
    rows: int
    """Estimated number of rows of all models together."""
    indexes: Sequence[VectorIndex]


@dataclass(frozen=True, slots=True)
class IndexedModel:
    """A model that serves or is being built."""

    model_id: int
    dimensions: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Indexes to drop and to create on one table; an index is created only if that model has enough
    vectors."""

    drop: Sequence[str]
    make: Sequence[IndexedModel]


def index_name(table: str, model: IndexedModel) -> str:
    """Return the name of the index over one model's vectors: `memory_embeddings_hnsw_1`."""
    return f"{table}_hnsw_{model.model_id}"


def plan_indexes(table: VectorTable, models: Sequence[IndexedModel], index_from: int) -> IndexPlan:
    """Return the indexes to drop and to create.

    Dropped are invalid indexes, those of a model that is no longer used, and all indexes of a space that
    shrank.
    """
    names = {index_name(table.table, model): model for model in models}
    shrunk = table.rows * DROP_FACTOR < index_from
    drop = [
        index.name
        for index in table.indexes
        if shrunk or not index.valid or index.name not in names
    ]
    standing = {index.name for index in table.indexes} - set(drop)
    large = table.rows >= index_from
    return IndexPlan(drop, [m for name, m in names.items() if large and name not in standing])


def build_memory_mb(table: VectorTable, model: IndexedModel) -> int:
    """Return the memory in MB that an index build needs; with less it takes several times as long."""
    return table.rows * (2 * model.dimensions + GRAPH_BYTES) // MEGABYTE
