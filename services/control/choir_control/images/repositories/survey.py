"""Fetch and check of every repository of a configuration, before it is staged.

A failed fetch is a warning: the last commit is used and flagged as stale. Invalid contents are a
fault, and then nothing is staged.
"""

import asyncio
import secrets
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
from choir_common.wire.config import Config
from choir_common.wire.validation_messages import format_errors
from choir_control.images.repositories.content_checks import find_content_faults
from choir_control.images.repositories.mirrors import COMMIT_CHARS, FetchedRepository, Mirrors
from choir_control.images.repositories.prompt_files import list_prompt_files, read_prompt_file
from choir_control.images.repositories.source import (
    GLOBAL_OWNER,
    RepositorySource,
    configured_source,
    folder_source,
)

# an operator waits for all of them together
TOTAL_TIMEOUT_S = 60.0
FETCH_TIMEOUT_S = 30.0
MAX_CONCURRENT_FETCHES = 8
MAX_FAULTS = 20
SCAN_PREFIX = ".scan-"


@dataclass(frozen=True, slots=True)
class SurveyedRepository:
    """State of one repository; `commit` is None if it was never fetched."""

    source: RepositorySource
    commit: str | None
    warning: str | None = None

    @property
    def is_stale(self) -> bool:
        """Return whether the remote may have newer commits."""
        return self.warning is not None


@dataclass(frozen=True, slots=True)
class RepositorySurvey:
    """State of every repository of a configuration: the global one first, then the agents' by name."""

    repos: tuple[SurveyedRepository, ...] = ()

    @property
    def global_repo(self) -> SurveyedRepository | None:
        """Return the global repository, or None."""
        return next((repo for repo in self.repos if repo.source.owner == GLOBAL_OWNER), None)

    @property
    def agent_repos(self) -> dict[str, SurveyedRepository]:
        """Return the agents' repositories, by agent."""
        return {repo.source.owner: repo for repo in self.repos if repo.source.owner != GLOBAL_OWNER}

    @property
    def commits_by_owner(self) -> dict[str, str]:
        """Return the commits, by owner; empty for one that was never fetched."""
        return {repo.source.owner: repo.commit or "" for repo in self.repos}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings about failed fetches."""
        return tuple(repo.warning for repo in self.repos if repo.warning is not None)


class RepositorySurveyor:
    """Fetches and checks all repositories together."""

    def __init__(self, mirrors: Mirrors, top: Path, *, compiles: bool) -> None:
        """`top` is the directory for temporary scans; `compiles` as in `find_content_faults`."""
        self._mirrors = mirrors
        self._top = top
        self._compiles = compiles

    async def survey(self, config: Config) -> RepositorySurvey:
        """Return the state of every repository. Raises InvalidRequest with all faults."""
        sources, faults = _sources(config, self._top.parent)
        await asyncio.to_thread(_clear, self._top)
        turns, give_up = (
            asyncio.Semaphore(MAX_CONCURRENT_FETCHES),
            time.monotonic() + TOTAL_TIMEOUT_S,
        )
        async with asyncio.TaskGroup() as tasks:
            looks = [
                tasks.create_task(self._check_repository(source, turns, give_up))
                for source in sources
            ]
        results = [look.result() for look in looks]
        faults += [fault for _, repo_faults in results for fault in repo_faults]
        fetched = {repo.source.owner for repo, _ in results if repo.commit is not None}
        failed = {repo.source.owner for repo, _ in results} - fetched
        faults += await self._find_prompt_faults(config, failed)
        if faults:
            tail = "Nothing was staged; correct the repositories and load again."
            raise InvalidRequest(
                format_errors(_("The repositories are invalid"), faults, tail, MAX_FAULTS)
            )
        return RepositorySurvey(tuple(repo for repo, _ in results))

    async def _find_prompt_faults(self, config: Config, failed: Collection[str]) -> list[str]:
        """Return the faults of prompt files; agents whose repository could not be fetched are skipped."""
        faults = []
        for agent_id, where, path in list_prompt_files(config):
            try:
                if agent_id not in failed:
                    await read_prompt_file(self._mirrors, self._top.parent, config, agent_id, path)
            except ChoirError as error:
                faults.append(f"{where}: {error.message.rstrip('.')}")
        return faults

    async def _check_repository(
        self, source: RepositorySource, turns: asyncio.Semaphore, give_up: float
    ) -> tuple[SurveyedRepository, list[str]]:
        async with turns:
            try:
                # never more than what remains of the time for all repositories
                within_s = max(0.1, min(FETCH_TIMEOUT_S, give_up - time.monotonic()))
                repository = await self._mirrors.fetch(source, within_s)
            except ChoirError as error:
                return SurveyedRepository(source, None, error.message), []
            warning = repository.warning and (
                _("{warning} {commit}, fetched earlier, is used; it may be stale.").format(
                    warning=repository.warning, commit=repository.commit[:COMMIT_CHARS]
                )
            )
            return SurveyedRepository(source, repository.commit, warning), await self._faults(
                repository
            )

    async def _faults(self, repository: FetchedRepository) -> list[str]:
        into = self._top / f"{SCAN_PREFIX}{repository.source.owner}-{secrets.token_hex(4)}"
        where = f"{repository.source.display_name} ({repository.commit[:COMMIT_CHARS]})"
        try:
            tree = await self._mirrors.write_files(repository, into)
            faults = await asyncio.to_thread(find_content_faults, tree, can_compile=self._compiles)
        except ChoirError as error:
            return [error.message.rstrip(".")]
        finally:
            await asyncio.to_thread(shutil.rmtree, into, ignore_errors=True)
        return [f"{where}: {fault}" for fault in faults]


def _sources(config: Config, home: Path) -> tuple[list[RepositorySource], list[str]]:
    sources, faults = [], []
    for owner in (GLOBAL_OWNER, *sorted(config.agents)):
        try:
            source = configured_source(config, owner) or folder_source(home, owner)
        except InvalidRequest as error:
            faults.append(error.message.rstrip("."))
            continue
        if source is not None:
            sources.append(source)
    return sources, faults


def _clear(top: Path) -> None:
    """Remove the files of an interrupted scan; only one survey runs at a time."""
    for path in top.glob(f"{SCAN_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)
