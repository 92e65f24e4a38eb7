"""Put a changed config.json in force the way an operator does: staged whole, then applied (spec 17.6).

Called by `config_change` through `workshop`. What it needs of staging is written down here.
"""

from typing import Protocol

from choir_common.wire.config import Config
from choir_control.configuration.current import Snapshot
from choir_control.evolution.carrier import Stale


class Candidate(Protocol):
    """What was staged."""

    @property
    def written(self) -> Config:
        """Return what the file says."""
        ...

    @property
    def digest(self) -> str:
        """Return what names it."""
        ...


class Staged(Protocol):
    """Something staged."""

    @property
    def candidate(self) -> Candidate:
        """Return it."""
        ...


class Difference(Protocol):
    """What staging found."""

    @property
    def staged(self) -> Staged:
        """Return what waits."""
        ...


class Stages(Protocol):
    """The two phases of config.json."""

    async def load(self) -> Difference:
        """Read, check and stage the file."""
        ...

    async def apply(self, digest: str | None) -> tuple[Snapshot, object]:
        """Put what is staged under this digest in force."""
        ...


class InForce:
    """Stages and applies; nothing but what is expected."""

    def __init__(self, staging: Stages) -> None:
        self._staging = staging

    async def __call__(self, expected: Config) -> int:
        """Return the version in force; raises Stale when the file says something else."""
        candidate = (await self._staging.load()).staged.candidate
        if candidate.written != expected:
            raise Stale("config.json has been edited meanwhile.")
        snapshot, _ = await self._staging.apply(candidate.digest)
        return snapshot.version
