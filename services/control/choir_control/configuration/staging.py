"""The two phases: stage what config.json says, then put exactly that in force (spec 17.6, 17.7).

Called by the operator door. `load` looks through config.json and all repositories, and stages both as one
snapshot or nothing; of the repositories `apply` puts nothing in force: builds and updates do. The order of
`apply` is what makes it all or nothing: what can fail and be taken back comes first (the sockets of new
agents), then one row in the database, which is the commit; what comes after the row cannot fail, or is
found out by those concerned themselves.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

import structlog

from choir_common.clock import Clock
from choir_common.errors import BadInput, Conflict
from choir_common.wire.config import Config
from choir_common.wire.configuring import ConfigChange, RepoChange
from choir_control.configuration.change import changes
from choir_control.configuration.current import Candidate, Configuration, Snapshot
from choir_control.repos.survey import Survey

log = structlog.get_logger("choir.configuration")

# a shorter value would be found in ordinary words
SHORTEST_LEAK = 12

Look = Callable[[Config], Awaitable[Sequence[str]]]
Open = Callable[[Sequence[str]], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Staged:
    """What `load` found, whole."""

    candidate: Candidate
    repos: Survey
    at: datetime

    @property
    def digest(self) -> str:
        """Return what names it: the configuration, and the commit of each repository."""
        words = [f"{owner} {commit}" for owner, commit in sorted(self.repos.commits.items())]
        return hashlib.sha256("\n".join((self.candidate.digest, *words)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Difference:
    """What is staged against what is in force."""

    staged: Staged
    running_version: int
    changes: tuple[ConfigChange, ...]
    repos: tuple[RepoChange, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Around:
    """What staging needs of other rooms."""

    find_secret: Callable[[str, int], str | None]
    """Names the secret whose value stands in a text."""
    survey: Callable[[Config], Awaitable[Survey]]
    """Fetches and looks through all repositories; raises BadInput with what does not fit."""
    behind: Callable[[Config, Survey], Awaitable[tuple[RepoChange, ...]]]
    """Tells which images are older than what was surveyed."""
    warn: Look
    """Says what a configuration would mean for those who run."""
    open_doors: Open
    """Makes agents startable; taken back when its block raises."""
    tell: Callable[[int], Awaitable[None]]
    """Tells whoever runs of the new version; must not raise."""


class Staging:
    """At most one configuration that waits."""

    def __init__(self, configuration: Configuration, clock: Clock, around: Around) -> None:
        self._configuration = configuration
        self._clock = clock
        self._around = around
        self._staged: Staged | None = None
        self._turn = asyncio.Lock()
        self._loading = asyncio.Lock()

    @property
    def waiting(self) -> bool:
        """Whether something is staged."""
        return self._staged is not None

    async def load(self) -> Difference:
        """Read and check everything, and stage it; what was staged before is replaced, or kept on error.

        Takes a minute at most, when remotes do not answer. Raises BadInput naming the file, the place in it
        and what to do.
        """
        async with self._loading:
            candidate = await asyncio.to_thread(self._configuration.read)
            self._refuse_values(candidate)
            repos = await self._around.survey(candidate.config)
            # only now is there anything to stage, and it is staged in one step
            self._staged = staged = Staged(candidate, repos, self._clock.now())
            log.info("configuration staged", digest=staged.digest, commits=repos.commits)
        return await self._difference(staged)

    async def diff(self) -> Difference:
        """Compare what is staged with what is in force; raises Conflict when nothing is staged."""
        return await self._difference(self._expect(None))

    async def apply(self, digest: str | None) -> tuple[Snapshot, Difference]:
        """Put what is staged in force; return it and what it changed.

        Raises Conflict when nothing is staged, or something else than `digest` names; Unavailable when a
        socket or the database fails: nothing has changed then, and it stays staged.
        """
        async with self._turn:
            staged = self._expect(digest)
            difference = await self._difference(staged)
            return await self._put_in_force(difference), difference

    async def put_file_in_force(self, expected: Config) -> int:
        """Put in force what the file says, if that is exactly `expected`; return the version.

        Asked again after a crash it does nothing but tell. What an operator has staged stays staged, if it is
        something else. Raises Conflict when the file says something else, and what `apply` raises.
        """
        async with self._turn:
            candidate = await asyncio.to_thread(self._configuration.read)
            self._refuse_values(candidate)
            if candidate.written != expected:
                raise Conflict(f"{self._configuration.path} has been edited meanwhile.")
            difference = await self._difference(Staged(candidate, Survey(), self._clock.now()))
            return (await self._put_in_force(difference)).version

    async def _put_in_force(self, difference: Difference) -> Snapshot:
        candidate = difference.staged.candidate
        running = self._configuration.current.config.agents
        added = [name for name in candidate.config.agents if name not in running]
        with self._around.open_doors(added):
            snapshot = await self._configuration.put_in_force(candidate, "config")
        if self._staged is not None and self._staged.candidate.digest == candidate.digest:
            self._staged = None
        log.info(
            "configuration applied",
            version=snapshot.version,
            changes=[change.path for change in difference.changes],
        )
        await self._around.tell(snapshot.version)
        return snapshot

    def _expect(self, digest: str | None) -> Staged:
        if self._staged is None:
            raise Conflict("Nothing is staged. Run `choirctl config load` first.")
        if digest not in (None, self._staged.digest):
            raise Conflict(
                "Something else has been staged since. Look at `choirctl config diff`, and apply again."
            )
        return self._staged

    async def _difference(self, staged: Staged) -> Difference:
        current, config = self._configuration.current, staged.candidate.config
        warnings = await self._around.warn(config)
        return Difference(
            staged,
            current.version,
            changes(current.config, config),
            await self._around.behind(config, staged.repos),
            (*staged.repos.warnings, *warnings),
        )

    def _refuse_values(self, candidate: Candidate) -> None:
        """Keep secrets out of the database and of what is shown: only their names stand in config.json."""
        name = self._around.find_secret(candidate.body, SHORTEST_LEAK)
        if name is not None:
            raise BadInput(
                f"{self._configuration.path} holds the value of the secret {name!r}. Only names of "
                "secrets belong there: write the name into a `secret` field."
            )
