"""Comparison of agents' images with the newest commits of their repositories.

Called by `configuration.staging` through `operator.configuring`; shown by `config diff`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from choir_common.choir_dir import ImageVersion
from choir_common.errors import Unavailable
from choir_common.wire.config import Config
from choir_common.wire.configuring import RepoChange
from choir_control.images.shelf import Shelf
from choir_control.repos.mirrors import Mirrors
from choir_control.repos.survey import Survey, Surveyed

MOST_FILES = 100


@dataclass(frozen=True, slots=True)
class _Behind:
    """An agent with an image of another commit of a repository, or without an image."""

    repo: Surveyed
    commit: str
    agent_id: str
    before: str | None
    built: bool


class PendingImages:
    """Compares the surveyed commits with the image that each agent runs, or would start with."""

    def __init__(
        self, mirrors: Mirrors, shelf: Shelf, live: Callable[[], Awaitable[Collection[str]]]
    ) -> None:
        """`live` returns the ids of the running agents."""
        self._mirrors = mirrors
        self._shelf = shelf
        self._live = live

    async def changes(self, config: Config, survey: Survey) -> tuple[RepoChange, ...]:
        """Return one change per repository and outdated commit, with the agents that have it."""
        versions = await self._versions(config, await self._live())
        groups: dict[tuple[str, str | None], list[_Behind]] = {}
        for behind in _behind(config, survey, versions):
            groups.setdefault((behind.repo.source.owner, behind.before), []).append(behind)
        return tuple([await self._change(group) for group in groups.values()])

    async def _versions(
        self, config: Config, live: Collection[str]
    ) -> Mapping[str, ImageVersion | None]:
        found: dict[str, ImageVersion | None] = {}
        for agent_id in config.agents:
            running = self._shelf.running(agent_id) if agent_id in live else None
            # a running agent counts as what it runs, even if a newer image is built
            found[agent_id] = running or await asyncio.to_thread(self._of_next_start, agent_id)
        return found

    def _of_next_start(self, agent_id: str) -> ImageVersion | None:
        try:
            image = self._shelf.current(agent_id)
        except Unavailable:
            return None  # unreadable label: the image must be built again
        return image.version if image else None

    async def _change(self, group: list[_Behind]) -> RepoChange:
        first, agents = group[0], tuple(behind.agent_id for behind in group)
        owner = first.repo.source.owner
        files = await self._mirrors.changed(owner, first.before, first.commit)
        return RepoChange(
            owner=owner,
            agents=agents,
            before=first.before,
            after=first.commit,
            stale=first.repo.stale,
            note=_note(agents, built=all(behind.built for behind in group)),
            files=tuple(files or ())[:MOST_FILES],
            more=max(0, len(files or ()) - MOST_FILES),
        )


def _behind(
    config: Config, survey: Survey, versions: Mapping[str, ImageVersion | None]
) -> Iterator[_Behind]:
    own = survey.own
    for shared in (True, False):
        for agent_id in sorted(config.agents):
            repo = survey.shared if shared else own.get(agent_id)
            if repo is None or repo.commit is None:
                continue
            has = versions[agent_id]
            before = has and (has.global_repo_commit if shared else has.agent_repo_commit)
            if before != repo.commit:
                yield _Behind(repo, repo.commit, agent_id, before or None, has is not None)


def _note(agents: tuple[str, ...], *, built: bool) -> str:
    if len(agents) > 1:
        return "use: choirctl agent update-all"
    return f"use: choirctl agent {'update' if built else 'build'} {agents[0]}"
