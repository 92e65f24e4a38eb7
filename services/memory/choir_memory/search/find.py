"""Find candidates for a query: read a small space whole, or query the arms in a large one.

Called by `recall` on a connection that may read the agent's schema; next are `whole_store`, or the stores
of the arms and `material_store`. The choice depends on the space and on whether the query is limited to
one session or collection, not on other filters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from choir_common.postgres.pool import Connection
from choir_common.wire.memories import Arm
from choir_memory.embedding.port import QueryVector
from choir_memory.search.columns_store import Wanted
from choir_memory.search.corpora import Corpora
from choir_memory.search.material import NO_MATERIAL, Material
from choir_memory.search.material_store import read_material
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import Scored
from choir_memory.search.text_arm_store import NOTHING, TextFound, text_arm
from choir_memory.search.vector_arm_store import NO_VECTORS, VectorFound, vector_arm
from choir_memory.search.whole_store import read_whole


@dataclass(frozen=True, slots=True)
class Sought:
    """What to retrieve."""

    scope: Scope
    terms: Sequence[str] | None
    """None: the full-text arm is not used."""
    vector: QueryVector | None
    dated: bool
    beside: bool
    """Whether neighbours of matching documents are candidates; False for searches by words only."""
    depth: int
    """Number of documents each arm returns."""


@dataclass(frozen=True, slots=True)
class Found:
    """The results of the arms, and all documents to be ranked."""

    material: Material
    text: TextFound
    near: VectorFound
    lists: Mapping[Arm, Sequence[Scored]]


NOTHING_FOUND = Found(NO_MATERIAL, NOTHING, NO_VECTORS, {})


async def find(held: Connection, corpora: Corpora, sought: Sought) -> Found:
    """Return the candidates for a query."""
    if not sought.terms and sought.vector is None:
        return _found(sought, NO_MATERIAL, NOTHING, NO_VECTORS)
    scope = sought.scope
    # a space that is known to be large is not tried again
    if scope.is_narrow or not corpora.knows(scope):
        wanted = Wanted(scope, sought.terms or (), sought.vector, sought.dated)
        if (whole := await read_whole(held, wanted)) is not None:
            material = whole.material if sought.beside else _worded(whole.material)
            return _found(sought, material, whole.text, whole.near)
    return await _in_large(held, corpora, sought)


async def _in_large(held: Connection, corpora: Corpora, sought: Sought) -> Found:
    scope, text, near = sought.scope, NOTHING, NO_VECTORS
    corpus = await corpora.of(held, scope)
    if sought.terms:
        text = await text_arm(held, scope, corpus, sought.terms, sought.depth)
    if sought.vector is not None:
        near = await vector_arm(held, scope, corpus, sought.vector, sought.depth)
    wanted = Wanted(scope, text.terms, sought.vector, sought.dated)
    candidates = (*text.hits, *near.hits)
    material = await read_material(held, wanted, candidates, beside=sought.beside)
    return _found(sought, material, text, near)


def _found(sought: Sought, material: Material, text: TextFound, near: VectorFound) -> Found:
    lists: dict[Arm, Sequence[Scored]] = {}
    if sought.terms is not None:
        lists["text"] = text.hits
    if sought.vector is not None:
        lists["vector"] = near.hits
    return Found(material, text, near, lists)


def _worded(material: Material) -> Material:
    return material.only(np.flatnonzero(material.counts.any(axis=1)))
