"""The table `person_identities`."""

from choir_common.postgres.pool import Database
from choir_control.configuration.people import Identity


class PersonIdentityStore:
    """Store of linked identities."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_all(self) -> dict[Identity, str]:
        """Return the person of each linked identity."""
        rows = await self._database.fetch(
            "SELECT gateway, user_id, person FROM choir_control.person_identities"
        )
        return {(row["gateway"], row["user_id"]): row["person"] for row in rows}

    async def add(self, identity: Identity, person: str, by: str) -> None:
        """Link an identity, in place of a link to a person who is no longer configured."""
        await self._database.execute(
            """
            INSERT INTO choir_control.person_identities (gateway, user_id, person, linked_by)
            VALUES ($1, $2, $3, $4)
            ON CONFLICT (gateway, user_id) DO UPDATE
            SET person = EXCLUDED.person, linked_by = EXCLUDED.linked_by, linked_at = clock_timestamp()
            """,
            *identity,
            person,
            by,
        )

    async def remove(self, identity: Identity, person: str) -> bool:
        """Delete a link; return False if there is none."""
        removed = await self._database.fetchval(
            "DELETE FROM choir_control.person_identities "
            "WHERE gateway = $1 AND user_id = $2 AND person = $3 RETURNING true",
            *identity,
            person,
        )
        return bool(removed)
