"""Apply a changed config.json in the same way as an operator: check it as a whole, then apply it.

Called by `config_change` through `workshop`; `configuration.staging` does the work.
"""

from collections.abc import Awaitable, Callable

from choir_common.errors import Conflict
from choir_common.wire.config import Config
from choir_control.evolution.carrier import Stale


class InForce:
    """Applies config.json if it has the expected content."""

    def __init__(self, put: Callable[[Config], Awaitable[int]]) -> None:
        """`put` raises Conflict when the file has other content."""
        self._put = put

    async def __call__(self, expected: Config) -> int:
        """Return the active version; raises Stale when the file has other content."""
        try:
            return await self._put(expected)
        except Conflict as error:
            raise Stale(error.message) from None
