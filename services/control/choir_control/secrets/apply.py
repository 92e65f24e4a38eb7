"""Read secrets.json again and put it in force, whole or not at all (spec 17.1). Called by the operator door.

The file is read and the new version stored first; then the values are swapped in one step. Whoever is
told afterwards and does not hear it learns of the version by itself: agents by their heartbeat, the gateway
when it next asks for its channels.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from choir_common.secret_file import read_secret_file
from choir_control.secrets.vault import Swap, Vault

log = structlog.get_logger("choir.secrets")

# of the stack itself: no agent is ever bound to one, and a service reads its own when it starts
OWN = frozenset({"postgres-admin", "nats-token", "operator-token"})


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply did; names only."""

    version: int
    swap: Swap
    overridden: tuple[str, ...]
    at_restart: tuple[str, ...]


class SecretApply:
    """The way from the file into the vault."""

    def __init__(
        self,
        path: Path,
        vault: Vault,
        supplied: Mapping[str, str],
        renumber: Callable[[], Awaitable[int]],
        tell: Callable[[int], Awaitable[None]],
        others: Callable[[], Collection[str]],
    ) -> None:
        """`supplied` is what the deployment adds to the file; `renumber` stores a new version.

        `others` names the secrets that another service reads when it starts.
        """
        self._path = path
        self._vault = vault
        self._supplied = dict(supplied)
        self._renumber = renumber
        self._tell = tell
        self._turn = asyncio.Lock()
        self._others = others
        self._at_start: dict[str, str] | None = None

    async def note_own(self) -> None:
        """Remember what services read when they start, to tell later what changed."""
        try:
            found = await asyncio.to_thread(read_secret_file, self._path)
        except Exception:  # a deployment without the file: there is nothing to compare with
            return
        self._at_start = {name: value for name, value in found.items() if name in self._late()}

    async def apply(self) -> Applied:
        """Put the file in force.

        Raises what `read_secret_file` raises, and Unavailable without a database: nothing has changed then.
        """
        async with self._turn:
            found = await asyncio.to_thread(read_secret_file, self._path)
            named = {name: value for name, value in found.items() if name not in OWN}
            version = await self._renumber()
            # no await between the two: whoever sees the new version gets the new values
            swap = self._vault.replace({**named, **self._supplied})
            await self._tell(version)
        log.info(
            "secrets applied",
            version=version,
            added=swap.added,
            changed=swap.changed,
            removed=swap.removed,
        )
        overridden = tuple(sorted(name for name in self._supplied if name in named))
        return Applied(version, swap, overridden, self._at_restart(found))

    def _at_restart(self, found: Mapping[str, str]) -> tuple[str, ...]:
        if self._at_start is None:
            return ()
        before = self._at_start
        return tuple(sorted(n for n in self._late() if n in found and found[n] != before.get(n)))

    def _late(self) -> Collection[str]:
        return {*OWN, *self._others()}
