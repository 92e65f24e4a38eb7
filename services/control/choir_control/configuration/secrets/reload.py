"""Reload of secrets.json, all or nothing.

The file is read and the new version stored first; then one step replaces the values. Notifications
follow. Processes that miss them detect the version themselves: agents by a heartbeat, the gateway
when it next reads its channels.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from choir_common.secret_file import read_secret_file
from choir_common.stack_secrets import RESERVED_SECRETS
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretChanges, SecretStore

log = structlog.get_logger("choir.secrets")


@dataclass(frozen=True, slots=True)
class SecretReloadResult:
    """The result of an apply; it contains names only."""

    version: int
    swap: SecretChanges
    overridden: tuple[str, ...]
    at_restart: tuple[str, ...]


class VersionAnnouncer(Protocol):
    """Sender of new configuration versions to running sessions and the gateway."""

    async def announce(self, version: int) -> None:
        """Announce a new version; a failure only delays the receivers."""


class SecretReloader:
    """Loader of the secrets file into the vault."""

    def __init__(
        self,
        *,
        path: Path,
        secrets: SecretStore,
        deployment_secrets: Mapping[str, str],
        configuration: ConfigService,
        announcer: VersionAnnouncer,
    ) -> None:
        """`deployment_secrets` are added to those of the file."""
        self._path = path
        self._secrets = secrets
        self._deployment_secrets = dict(deployment_secrets)
        self._configuration = configuration
        self._announcer = announcer
        self._lock = asyncio.Lock()
        self._at_start: dict[str, str] | None = None

    async def remember_startup_values(self) -> None:
        """Remember the values that services read at startup, to report later which have changed."""
        try:
            values = await asyncio.to_thread(read_secret_file, self._path)
        except Exception:  # a deployment without the file: there is nothing to compare
            return
        self._at_start = {
            name: value for name, value in values.items() if name in self._startup_names()
        }

    async def read_again(self) -> None:
        """Take the values of the file, which may have changed while this process was a standby."""
        try:
            values = await asyncio.to_thread(read_secret_file, self._path)
        except Exception:  # a deployment without the file: the values of the start are all there is
            return
        self._replace(values)

    def _replace(self, values: Mapping[str, str]) -> SecretChanges:
        secrets = {name: value for name, value in values.items() if name not in RESERVED_SECRETS}
        return self._secrets.replace({**secrets, **self._deployment_secrets})

    async def apply(self) -> SecretReloadResult:
        """Replace all values by those in the file.

        Raises the errors of `read_secret_file`, and Unavailable without a database; nothing has
        changed then.
        """
        async with self._lock:
            values = await asyncio.to_thread(read_secret_file, self._path)
            # The step that can fail comes first.
            version = await self._configuration.renumber()
            # No await between these two steps: a reader of the new version must get the new values.
            swap = self._replace(values)
            await self._announcer.announce(version)
        log.info(
            "secrets applied",
            version=version,
            added=swap.added,
            changed=swap.changed,
            removed=swap.removed,
        )
        overridden = tuple(sorted(name for name in self._deployment_secrets if name in values))
        return SecretReloadResult(version, swap, overridden, self._at_restart(values))

    def _at_restart(self, values: Mapping[str, str]) -> tuple[str, ...]:
        if self._at_start is None:
            return ()
        before = self._at_start
        return tuple(
            sorted(n for n in self._startup_names() if n in values and values[n] != before.get(n))
        )

    def _startup_names(self) -> Collection[str]:
        """Return the names of the secrets that services read only at their startup."""
        config = self._configuration.current.config
        model = config.models.get(config.memory.model or "")
        fallbacks = [config.models.get(name) for name in (model.fallback if model else ())]
        secrets = [it.secret for it in (model, *fallbacks) if it is not None]
        names = (config.embedding and config.embedding.secret, *secrets)
        return {*RESERVED_SECRETS, "embedding-key", *(name for name in names if name)}
