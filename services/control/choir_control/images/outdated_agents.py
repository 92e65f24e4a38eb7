"""Comparison of agents' images with the newest commits of their repositories, for `config diff`."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from choir_common.errors import Unavailable
from choir_common.identity_dir import ImageVersion
from choir_common.wire.config import Config
from choir_common.wire.config_api import RepoChange
from choir_control.images.image_store import ImageStore
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.survey import RepositorySurvey, SurveyedRepository

MAX_LISTED_FILES = 100


class LiveSession(Protocol):
    """A session that has neither ended nor been suspended."""

    @property
    def agent_id(self) -> str:
        """Return the session's agent."""


class LiveSessionReader(Protocol):
    """Reader of the live sessions."""

    async def list_live(self) -> Sequence[LiveSession]:
        """Return all sessions that have neither ended nor been suspended."""


@dataclass(frozen=True, slots=True)
class _OutdatedAgent:
    """An agent with an image of another commit of a repository, or without an image."""

    repo: SurveyedRepository
    commit: str
    agent_id: str
    before: str | None
    built: bool


class OutdatedImages:
    """Compares the surveyed commits with the image that each agent runs, or would start with."""

    def __init__(
        self,
        mirrors: Mirrors,
        image_store: ImageStore,
        sessions: LiveSessionReader,
    ) -> None:
        self._mirrors = mirrors
        self._image_store = image_store
        self._sessions = sessions

    async def changes(self, config: Config, survey: RepositorySurvey) -> tuple[RepoChange, ...]:
        """Return one change per repository and outdated commit, with the agents that have it."""
        live = {session.agent_id for session in await self._sessions.list_live()}
        versions = await self._versions(config, live)
        groups: dict[tuple[str, str | None], list[_OutdatedAgent]] = {}
        for behind in _behind(config, survey, versions):
            groups.setdefault((behind.repo.source.owner, behind.before), []).append(behind)
        return tuple([await self._change(group) for group in groups.values()])

    async def _versions(
        self, config: Config, live: Collection[str]
    ) -> Mapping[str, ImageVersion | None]:
        versions: dict[str, ImageVersion | None] = {}
        for agent_id in config.agents:
            version = self._image_store.running_version(agent_id) if agent_id in live else None
            # a running agent counts as what it runs, even if a newer image is built
            versions[agent_id] = version or await asyncio.to_thread(self._of_next_start, agent_id)
        return versions

    def _of_next_start(self, agent_id: str) -> ImageVersion | None:
        try:
            image = self._image_store.get_current(agent_id)
        except Unavailable:
            return None  # unreadable label: the image must be built again
        return image.version if image else None

    async def _change(self, group: list[_OutdatedAgent]) -> RepoChange:
        first, agents = group[0], tuple(behind.agent_id for behind in group)
        owner = first.repo.source.owner
        files = await self._mirrors.list_changes(owner, first.before, first.commit)
        return RepoChange(
            owner=owner,
            agents=agents,
            before=first.before,
            after=first.commit,
            stale=first.repo.is_stale,
            note=_note(agents, built=all(behind.built for behind in group)),
            files=tuple(files or ())[:MAX_LISTED_FILES],
            more=max(0, len(files or ()) - MAX_LISTED_FILES),
        )


def _behind(
    config: Config, survey: RepositorySurvey, versions: Mapping[str, ImageVersion | None]
) -> Iterator[_OutdatedAgent]:
    own = survey.agent_repos
    for shared in (True, False):
        for agent_id in sorted(config.agents):
            repo = survey.global_repo if shared else own.get(agent_id)
            if repo is None or repo.commit is None:
                continue
            has = versions[agent_id]
            before = has and (has.global_repo_commit if shared else has.agent_repo_commit)
            if before != repo.commit:
                yield _OutdatedAgent(repo, repo.commit, agent_id, before or None, has is not None)


def _note(agents: tuple[str, ...], *, built: bool) -> str:
    if len(agents) > 1:
        return "use: choirctl agent update-all"
    return f"use: choirctl agent {'update' if built else 'build'} {agents[0]}"
