"""Decide which vector indexes a space is to have. Pure; called by `upkeep`."""

from collections.abc import Sequence
from dataclasses import dataclass

SHRUNK = 4
"""An index stays until the space is this many times smaller than what it was made for."""

GRAPH_BYTES = 1_000
"""That an index takes for a vector while it is made, beside the vector: its neighbours, with distances."""
MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Index:
    """An index over the vectors of one model; one that was cut off while it was made is not valid."""

    name: str
    valid: bool


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A table of vectors that is large, or has an index."""

    agent_id: str
    table: str
    rows: int
    """An estimate, of all models together."""
    indexes: Sequence[Index]


@dataclass(frozen=True, slots=True)
class Model:
    """A model whose vectors are searched, or will be."""

    model_id: int
    dimensions: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with one table; `make` only where there are vectors enough of that model."""

    drop: Sequence[str]
    make: Sequence[Model]


def index_name(table: str, model: Model) -> str:
    """Return the name of the index over one model's vectors: `memory_embeddings_hnsw_1`."""
    return f"{table}_hnsw_{model.model_id}"


def plan(table: VectorTable, models: Sequence[Model], index_from: int) -> Plan:
    """Return the indexes to drop (cut off, of a model that is gone, of a space that shrank) and to make."""
    names = {index_name(table.table, model): model for model in models}
    shrunk = table.rows * SHRUNK < index_from
    drop = [one.name for one in table.indexes if shrunk or not one.valid or one.name not in names]
    standing = {one.name for one in table.indexes} - set(drop)
    large = table.rows >= index_from
    return Plan(drop, [m for name, m in names.items() if large and name not in standing])


def build_mb(table: VectorTable, model: Model) -> int:
    """Return the memory that an index takes while it is made; with less it takes several times as long."""
    return table.rows * (2 * model.dimensions + GRAPH_BYTES) // MEGABYTE
