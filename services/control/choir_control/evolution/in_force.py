"""Put a changed config.json in force the way an operator does: checked whole, then applied (spec 17.6).

Called by `config_change` through `workshop`; `configuration.staging` does it.
"""

from collections.abc import Awaitable, Callable

from choir_common.errors import Conflict
from choir_common.wire.config import Config
from choir_control.evolution.carrier import Stale


class InForce:
    """Applies the file; nothing but what is expected."""

    def __init__(self, put: Callable[[Config], Awaitable[int]]) -> None:
        """`put` raises Conflict when the file says something else."""
        self._put = put

    async def __call__(self, expected: Config) -> int:
        """Return the version in force; raises Stale when the file says something else."""
        try:
            return await self._put(expected)
        except Conflict as error:
            raise Stale(error.message) from None
