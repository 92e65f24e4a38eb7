"""Fetch and check every repository of a configuration.

Called by `configuration.staging` before anything is staged. A failed fetch is a warning: the last
commit is used and flagged as stale. Invalid contents are a fault, and then nothing is staged.
"""

import asyncio
import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import BadInput, ChoirError
from choir_common.wire.config import Config
from choir_common.wire.faults import as_list
from choir_control.repos.contents import contents_faults
from choir_control.repos.mirrors import SHORT, Fetched, Mirrors
from choir_control.repos.source import GLOBAL, Source, folder_source, source_in

# an operator waits for all of them together
WHOLE_S = 60.0
EACH_S = 30.0
AT_ONCE = 8
MOST_FAULTS = 20
SCANS = ".scan-"


@dataclass(frozen=True, slots=True)
class Surveyed:
    """State of one repository; `commit` is None if it was never fetched."""

    source: Source
    commit: str | None
    warning: str | None = None

    @property
    def stale(self) -> bool:
        """Return whether the remote may have newer commits."""
        return self.warning is not None


@dataclass(frozen=True, slots=True)
class Survey:
    """State of every repository of a configuration: the global one first, then the agents' by name."""

    repos: tuple[Surveyed, ...] = ()

    @property
    def shared(self) -> Surveyed | None:
        """Return the global repository, or None."""
        return next((repo for repo in self.repos if repo.source.owner == GLOBAL), None)

    @property
    def own(self) -> dict[str, Surveyed]:
        """Return the agents' repositories, by agent."""
        return {repo.source.owner: repo for repo in self.repos if repo.source.owner != GLOBAL}

    @property
    def commits(self) -> dict[str, str]:
        """Return the commits, by owner; empty for one that was never fetched."""
        return {repo.source.owner: repo.commit or "" for repo in self.repos}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings about failed fetches."""
        return tuple(repo.warning for repo in self.repos if repo.warning is not None)


class Surveyor:
    """Fetches and checks all repositories together."""

    def __init__(self, mirrors: Mirrors, top: Path, *, compiles: bool) -> None:
        """`top` is the directory for temporary scans; `compiles` as in `contents_faults`."""
        self._mirrors = mirrors
        self._top = top
        self._compiles = compiles

    async def survey(self, config: Config) -> Survey:
        """Return the state of every repository. Raises BadInput with all faults."""
        sources, faults = _sources(config, self._top.parent)
        await asyncio.to_thread(_clear, self._top)
        turns, give_up = asyncio.Semaphore(AT_ONCE), time.monotonic() + WHOLE_S
        async with asyncio.TaskGroup() as tasks:
            looks = [tasks.create_task(self._look(one, turns, give_up)) for one in sources]
        found = [look.result() for look in looks]
        faults += [fault for _, repo_faults in found for fault in repo_faults]
        if faults:
            tail = "Nothing was staged; correct it there and load again."
            raise BadInput(as_list("The repositories do not fit", faults, tail, MOST_FAULTS))
        return Survey(tuple(repo for repo, _ in found))

    async def _look(
        self, source: Source, turns: asyncio.Semaphore, give_up: float
    ) -> tuple[Surveyed, list[str]]:
        async with turns:
            try:
                # never more than what remains of the time for all repositories
                within_s = max(0.1, min(EACH_S, give_up - time.monotonic()))
                fetched = await self._mirrors.fetch(source, within_s)
            except ChoirError as error:
                return Surveyed(source, None, error.message), []
            warning = fetched.warning and (
                f"{fetched.warning} {fetched.commit[:SHORT]}, fetched earlier, is what there is; it may "
                "be stale."
            )
            return Surveyed(source, fetched.commit, warning), await self._faults(fetched)

    async def _faults(self, fetched: Fetched) -> list[str]:
        into = self._top / f"{SCANS}{fetched.source.owner}-{secrets.token_hex(4)}"
        where = f"{fetched.source.spoken} ({fetched.commit[:SHORT]})"
        try:
            tree = await self._mirrors.read(fetched, into)
            faults = await asyncio.to_thread(contents_faults, tree, compiles=self._compiles)
        except ChoirError as error:
            return [error.message.rstrip(".")]
        finally:
            await asyncio.to_thread(shutil.rmtree, into, ignore_errors=True)
        return [f"{where}: {fault}" for fault in faults]


def _sources(config: Config, home: Path) -> tuple[list[Source], list[str]]:
    sources, faults = [], []
    for owner in (GLOBAL, *sorted(config.agents)):
        try:
            source = source_in(config, owner) or folder_source(home, owner)
        except BadInput as error:
            faults.append(error.message.rstrip("."))
            continue
        if source is not None:
            sources.append(source)
    return sources, faults


def _clear(top: Path) -> None:
    """Remove the files of an interrupted scan; only one survey runs at a time."""
    for path in top.glob(f"{SCANS}*"):
        shutil.rmtree(path, ignore_errors=True)
