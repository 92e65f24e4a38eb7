"""Types of the extension pgvector for the connections of this service, in their binary form."""

from pgvector.asyncpg import register_vector

from choir_common.postgres.pool import DedicatedConnection


class VectorTypes:
    """Registration of pgvector's types on each connection; text would take twice to six times as long
    (docs/decisions/0048)."""

    async def prepare(self, connection: DedicatedConnection) -> None:
        """Register the types; before the first migration of a new database they do not exist yet."""
        try:
            await register_vector(connection)
        except ValueError as error:
            if not str(error).startswith("unknown type"):
                raise
