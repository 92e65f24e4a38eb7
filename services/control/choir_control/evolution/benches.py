"""Cache of clones of agents' repositories, one lock per clone. Used by the proposal types that commit."""

import asyncio
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from choir_common.clock import Clock
from choir_common.errors import BadInput
from choir_control.approvals.store import Approval
from choir_control.configuration.current import Configuration
from choir_control.evolution.workbench import Signature, Workbench
from choir_control.repos.keys import Keys
from choir_control.repos.source import Source, source_in

CHOIR = ("Choir", "choir@localhost")
# Long enough that showing, deciding and rolling back a proposal usually find the clone still present.
IDLE_S = 600.0


class Benches:
    """The clones below `$CHOIR_HOME/repos/proposals`, one per agent."""

    def __init__(
        self,
        home: Path,
        configuration: Configuration,
        environment: Mapping[str, str],
        clock: Clock,
        keys: Keys | None = None,
    ) -> None:
        self._top = home / "repos" / "proposals"
        self._configuration = configuration
        self._environment = environment
        self._keys = keys
        self._clock = clock
        self._began = clock.monotonic()
        self._used: dict[str, float] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def source(self, agent_id: str) -> Source | None:
        """Return the agent's configured repository, or None."""
        snapshot = self._configuration.current
        snapshot.agent(agent_id)
        return source_in(snapshot.config, agent_id)

    @asynccontextmanager
    async def of(self, agent_id: str) -> AsyncIterator[Workbench]:
        """Lock and return the agent's clone for the block; raises BadInput when it has no repository."""
        source = self.source(agent_id)
        if source is None:
            raise BadInput(
                f"{agent_id} has no repository: set agents.{agent_id}.repo in config.json, and let it be "
                "proposed again."
            )
        async with self._turns[agent_id]:
            try:
                yield Workbench(self._top / agent_id, source, self._environment, self._keys)
            finally:
                self._used[agent_id] = self._clock.monotonic()

    async def sweep(self) -> None:
        """Remove the clones that were not used for `IDLE_S`; they are fetched again when needed."""
        for directory in await asyncio.to_thread(_directories, self._top):
            turn, now = self._turns[directory.name], self._clock.monotonic()
            # never wait for a clone in use: the next run finds it
            if turn.locked() or now - self._used.get(directory.name, self._began) < IDLE_S:
                continue
            async with turn:
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def signature(self, asked: Approval) -> Signature:
        """Return the author of an approved request's commit: the agent's git identity, or Choir."""
        config = self._configuration.current.config
        agent = config.agents.get(asked.agent_id)
        found = config.git_identities.get((agent and agent.defaults.git_identity) or "")
        name, email = (found.name, found.email) if found else CHOIR
        # a fixed time, so that a repeated attempt creates the same commit
        when = asked.resolved_at or asked.created_at
        return Signature(name, email, int(when.timestamp()))


def _directories(top: Path) -> list[Path]:
    return [path for path in top.iterdir() if path.is_dir()] if top.is_dir() else []
