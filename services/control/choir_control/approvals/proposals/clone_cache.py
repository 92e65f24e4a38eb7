"""Cache of clones of agents' repositories, one lock per clone."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from choir_common.clock import Clock
from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_control.approvals.proposals.commit_builder import CommitAuthor, CommitBuilder
from choir_control.approvals.store import Approval
from choir_control.configuration.current import ConfigService
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.images.repositories.leftovers import clear_leftovers
from choir_control.images.repositories.source import RepositorySource, configured_source

DEFAULT_AUTHOR = ("Choir", "choir@localhost")
# Long enough that showing, deciding and rolling back a proposal usually find the clone still present.
MAX_IDLE_S = 600.0


class CloneCache:
    """The clones below `$CHOIR_HOME/repos/proposals`, one per agent."""

    def __init__(
        self,
        home: Path,
        *,
        configuration: ConfigService,
        environment: Mapping[str, str],
        clock: Clock,
        keys: GitCredentials | None = None,
    ) -> None:
        self._top = home / "repos" / "proposals"
        self._configuration = configuration
        self._environment = environment
        self._keys = keys
        self._clock = clock
        self._began = clock.monotonic()
        self._used: dict[str, float] = {}
        self._locks = KeyedLock()

    def source_of_agent(self, agent_id: str) -> RepositorySource | None:
        """Return the agent's configured repository, or None."""
        snapshot = self._configuration.current
        snapshot.agent(agent_id)
        return configured_source(snapshot.config, agent_id)

    @asynccontextmanager
    async def lock_clone(self, agent_id: str) -> AsyncIterator[CommitBuilder]:
        """Lock and return the agent's clone for the block; raises InvalidRequest when it has no
        repository."""
        source = self.source_of_agent(agent_id)
        if source is None:
            raise InvalidRequest(
                _(
                    "{agent_id} has no repository: set agents.{agent_id}.repo in config.json, then have it "
                    "proposed again."
                ).format(agent_id=agent_id)
            )
        async with self._locks.of(agent_id):
            directory = self._top / agent_id
            await asyncio.to_thread(clear_leftovers, directory)
            try:
                yield CommitBuilder(
                    directory,
                    source,
                    environment=self._environment,
                    credentials=self._keys,
                )
            finally:
                self._used[agent_id] = self._clock.monotonic()

    async def remove_idle(self) -> None:
        """Remove the clones that were not used for `MAX_IDLE_S`; they are fetched again when needed."""
        for directory in await asyncio.to_thread(_directories, self._top):
            lock, now = self._locks.of(directory.name), self._clock.monotonic()
            # never wait for a clone in use: the next run finds it
            if lock.locked() or now - self._used.get(directory.name, self._began) < MAX_IDLE_S:
                continue
            async with lock:
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def commit_author(self, approval: Approval) -> CommitAuthor:
        """Return the author of an approved request's commit: the agent's git identity, or Choir."""
        config = self._configuration.current.config
        agent = config.agents.get(approval.agent_id)
        identity = config.git_identities.get((agent and agent.defaults.git_identity) or "")
        name, email = (identity.name, identity.email) if identity else DEFAULT_AUTHOR
        # a fixed time, so that a repeated attempt creates the same commit
        time = approval.resolved_at or approval.created_at
        return CommitAuthor(name, email, int(time.timestamp()))


def _directories(top: Path) -> list[Path]:
    return [path for path in top.iterdir() if path.is_dir()] if top.is_dir() else []
