"""Connections that know the server's own types from earlier ones.

asyncpg asks the server about each array type the first time a connection uses one. Planning that query takes
10 ms of the server's processor time, several times per connection.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import asyncpg

FIRST_NORMAL_OID = 16_384
"""Lower object ids are assigned in Postgres' source (`FirstNormalObjectId` in its access/transam.h), and no
release changes them."""
_answers: dict[frozenset[int], Any] = {}
"""What the server told about these types. A few entries: one per set of types that a statement has."""


@dataclass(frozen=True, slots=True)
class _NoStatement:
    """Stands for the statement that was not sent; its name says that the caller's is still prepared."""

    name: str = "cached"


class TypeCachingConnection(asyncpg.Connection):
    """A connection that asks about Postgres' own types once per process, instead of once per connection.

    `_introspect_types` is no public method of asyncpg. If a release no longer calls it, the server is asked
    as before.
    """

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
        oids = frozenset(typeoids)
        ask = super()._introspect_types  # type: ignore[misc]
        if max(oids) >= FIRST_NORMAL_OID:
            return await ask(oids, timeout)
        if oids not in _answers:
            _answers[oids], _ = await ask(oids, timeout)
        return _answers[oids], _NoStatement()
