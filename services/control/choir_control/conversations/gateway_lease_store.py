"""Store of the gateway that has the lease: table `gateway_lease`."""

from choir_common.postgres.pool import Database
from choir_control.conversations.gateway_lease import GatewayInstance


class GatewayLeaseStore:
    """The one row of the table; written only when the holder changes. Methods raise Unavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self) -> GatewayInstance:
        """Return the holder that was stored last."""
        row = await self._database.fetchrow(
            "SELECT instance, address FROM choir_control.gateway_lease"
        )
        return (
            GatewayInstance() if row is None else GatewayInstance(row["instance"], row["address"])
        )

    async def write(self, holder: GatewayInstance) -> None:
        """Store a holder."""
        await self._database.execute(
            """
            INSERT INTO choir_control.gateway_lease (instance, address) VALUES ($1, $2)
            ON CONFLICT (only_row) DO UPDATE
                SET instance = EXCLUDED.instance, address = EXCLUDED.address
            """,
            holder.instance,
            holder.address,
        )
