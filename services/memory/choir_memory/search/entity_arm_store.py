"""The entity arm: the turns that support facts which link what a query names.

Entities are found by the ids of all names that the query may contain, without a search. A query that names
none costs one statement, others two.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.documents.entity_names import entity_ids
from choir_memory.search.candidates import ARM_LIMIT, ArmResult, parse_arm_results
from choir_memory.search.entity_facts import EntityFact, select_linking_facts
from choir_memory.search.scope_store import SearchScope
from choir_memory.text.questions import content_terms

MAX_FACTS = 200
"""Facts about the named entities that are read, most frequent first."""

_USABLE = """f.status = 'active' AND (f.expires_at IS NULL OR f.expires_at > now())
    AND (f.valid_to IS NULL OR f.valid_to > now())"""
# A fact of category `name` connects two names of one entity; `same` leads from the other to the named one.
_FACTS = f"""
WITH named AS (
    SELECT l.from_id, l.to_id FROM {{schema}}.links l
    WHERE l.kind = 'mentions' AND l.to_id = ANY($1::uuid[])
), same AS (
    SELECT n.to_id AS named, o.to_id AS other FROM named n
    JOIN {{schema}}.knowledge_documents f ON f.id = n.from_id AND f.category = 'name' AND {_USABLE}
    JOIN {{schema}}.links o ON o.from_id = n.from_id AND o.kind = 'mentions' AND o.to_id <> n.to_id
), about AS (
    SELECT from_id FROM named
    UNION SELECT l.from_id FROM same s JOIN {{schema}}.links l ON l.to_id = s.other AND l.kind = 'mentions'
)
SELECT f.id, coalesce(f.predicate, '') AS predicate, ARRAY(
    SELECT coalesce((SELECT s.named FROM same s WHERE s.other = l.to_id ORDER BY s.named LIMIT 1), l.to_id)
    FROM {{schema}}.links l WHERE l.from_id = f.id AND l.kind = 'mentions') AS entities
FROM about a JOIN {{schema}}.knowledge_documents f ON f.id = a.from_id
WHERE f.kind = 'fact' AND f.category IS DISTINCT FROM 'name' AND {_USABLE}
ORDER BY f.seen_count DESC, f.updated_at DESC, f.id LIMIT $2
"""  # noqa: S608 a condition of ours
_EVIDENCE = """
SELECT d.id, {place}, g.score, row_number() OVER (ORDER BY g.score DESC, d.id) AS place
FROM (
    SELECT l.to_id, max(w.weight) AS score
    FROM unnest($1::uuid[], $2::float8[]) AS w (fact, weight)
    JOIN {schema}.links l ON l.from_id = w.fact AND l.kind = 'evidence' GROUP BY l.to_id
) AS g JOIN {documents} d ON d.id = g.to_id
WHERE {scope} ORDER BY place LIMIT $3
"""


async def search_entities(connection: Connection, scope: SearchScope, text: str) -> list[ArmResult]:
    """Return the turns in `scope` that support facts which link what the query names, the best first."""
    named = entity_ids(text)
    facts = await _read_facts(connection, scope, named) if named else []
    weights = select_linking_facts(facts, named, content_terms(text))
    return await _read_evidence(connection, scope, weights) if weights else []


async def _read_facts(
    connection: Connection, scope: SearchScope, entities: Sequence[UUID]
) -> list[EntityFact]:
    """Return the valid facts that mention one of these entities, by any of its names."""
    rows = await connection.fetch(scope.sql(_FACTS, 3), list(entities), MAX_FACTS)
    return [EntityFact(row["id"], row["predicate"], frozenset(row["entities"])) for row in rows]


async def _read_evidence(
    connection: Connection, scope: SearchScope, weights: Mapping[UUID, float]
) -> list[ArmResult]:
    """Return the turns in `scope` that support these facts, with the weight of the best one each."""
    sql = scope.sql(_EVIDENCE, 4)
    rows = await connection.fetch(
        sql, list(weights), list(weights.values()), ARM_LIMIT, *scope.arguments
    )
    return parse_arm_results(rows)
