"""Reload of secrets.json, all or nothing. Called by the operator API.

The file is read and the new version stored first; then one step replaces the values. Notifications
follow. Processes that miss them detect the version themselves: agents by a heartbeat, the gateway
when it next reads its channels.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from choir_common.secret_file import read_secret_file
from choir_control.configuration.secrets.store import SecretChanges, SecretStore

log = structlog.get_logger("choir.secrets")

# The stack's own secrets. No agent is ever bound to one, and each service reads its own at startup.
RESERVED_SECRETS = frozenset({"postgres-admin", "nats-token", "operator-token"})


@dataclass(frozen=True, slots=True)
class SecretReloadResult:
    """The result of an apply; it contains names only."""

    version: int
    swap: SecretChanges
    overridden: tuple[str, ...]
    at_restart: tuple[str, ...]


class SecretReloader:
    """Loader of the secrets file into the vault."""

    def __init__(
        self,
        path: Path,
        vault: SecretStore,
        supplied: Mapping[str, str],
        renumber: Callable[[], Awaitable[int]],
        tell: Callable[[int], Awaitable[None]],
        others: Callable[[], Collection[str]],
    ) -> None:
        """Create it; `supplied` are the secrets that the deployment adds to the file.

        `renumber` stores a new configuration version and `tell` announces it. `others` returns the
        names of secrets that another service reads at startup.
        """
        self._path = path
        self._vault = vault
        self._supplied = dict(supplied)
        self._renumber = renumber
        self._tell = tell
        self._turn = asyncio.Lock()
        self._others = others
        self._at_start: dict[str, str] | None = None

    async def remember_startup_values(self) -> None:
        """Remember the values that services read at startup, to report later which have changed."""
        try:
            found = await asyncio.to_thread(read_secret_file, self._path)
        except Exception:  # a deployment without the file: there is nothing to compare
            return
        self._at_start = {name: value for name, value in found.items() if name in self._late()}

    async def apply(self) -> SecretReloadResult:
        """Replace all values by those in the file.

        Raises the errors of `read_secret_file`, and Unavailable without a database; nothing has
        changed then.
        """
        async with self._turn:
            found = await asyncio.to_thread(read_secret_file, self._path)
            named = {name: value for name, value in found.items() if name not in RESERVED_SECRETS}
            # The step that can fail comes first.
            version = await self._renumber()
            # No await between these two steps: a reader of the new version must get the new values.
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
        return SecretReloadResult(version, swap, overridden, self._at_restart(found))

    def _at_restart(self, found: Mapping[str, str]) -> tuple[str, ...]:
        if self._at_start is None:
            return ()
        before = self._at_start
        return tuple(sorted(n for n in self._late() if n in found and found[n] != before.get(n)))

    def _late(self) -> Collection[str]:
        return {*RESERVED_SECRETS, *self._others()}
