"""Links between documents of either store: evidence, supersedes, mentions, rolls_up.

Called inside a transaction under the agent's role. A link points from the derived document to its source.
The two ends may be in different tables, so there is no foreign key; `erase_store` deletes links with
their documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.documents.kinds import LinkKind
from choir_memory.schema.naming import qualified

_ADD = """
INSERT INTO {schema}.links (from_id, kind, to_id)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[]) ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Link:
    """A link: `from_id` exists because of `to_id`."""

    from_id: UUID
    kind: LinkKind
    to_id: UUID


class LinkStore:
    """Links of one agent, on a connection under its role."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def add(self, links: Sequence[Link]) -> None:
        """Insert links; existing ones are kept."""
        if links:
            columns = zip(*((one.from_id, one.kind, one.to_id) for one in links), strict=True)
            await self._held.execute(self._sql(_ADD), *(list(column) for column in columns))

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
