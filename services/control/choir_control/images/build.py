"""Build of an agent's image: fetch, check for new commits, merge, build, make current.

Called by `rollout`. Starts no agent. The previous image stays the current one until the last step.
"""

import asyncio
import secrets
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from choir_common.errors import BadInput, Unavailable
from choir_common.wire.config import Config
from choir_control.configuration.current import Configuration
from choir_control.images.merge import merge
from choir_control.images.port import Image, ImageBuilder, Recipe, Report
from choir_control.images.shelf import Shelf
from choir_control.repos.contents import contents_faults
from choir_control.repos.mirrors import SHORT, Fetched, Mirrors
from choir_control.repos.source import GLOBAL, Source, folder_source, source_in
from choir_control.repos.tree import Tree

log = structlog.get_logger("choir.images")

STAGING = ".staging"
MOST_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Sources:
    """The repositories of one agent."""

    shared: Source | None
    own: Source | None

    @property
    def is_folder(self) -> bool:
        """Return whether the agent is built from its folder only, without any repository in config.json."""
        return self.shared is None and self.own is not None and self.own.protocol == "folder"

    def __bool__(self) -> bool:
        """Return whether there is anything to build from."""
        return self.shared is not None or self.own is not None


@dataclass(frozen=True, slots=True)
class Built:
    """Result of a build; `fresh` is False when the image was up to date."""

    image: Image
    fresh: bool
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Commits:
    shared: Fetched | None = None
    own: Fetched | None = None
    warnings: list[str] = field(default_factory=list)


def sources_of(config: Config, agent_id: str, home: Path) -> Sources:
    """Return an agent's repositories, or its folder; raises BadInput for an invalid address."""
    own = source_in(config, agent_id) or folder_source(home, agent_id)
    return Sources(source_in(config, GLOBAL), own)


class Images:
    """Builds images, one at a time for each agent."""

    def __init__(
        self,
        home: Path,
        configuration: Configuration,
        mirrors: Mirrors,
        builder: ImageBuilder,
        shelf: Shelf,
    ) -> None:
        self._home, self._top = home, home / "images"
        self._configuration = configuration
        self._mirrors = mirrors
        self._builder = builder
        self._shelf = shelf
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def sources(self, agent_id: str) -> Sources:
        """Return what an agent's image is built from now; raises BadInput."""
        return sources_of(self._configuration.current.config, agent_id, self._home)

    async def build(self, agent_id: str, report: Report) -> Built:
        """Return the image of the newest commits; build it if it does not exist.

        Raises NotFound for an unknown agent, BadInput for one without a repository or with invalid
        contents, Unavailable.
        """
        self._configuration.current.agent(agent_id)
        sources = self.sources(agent_id)
        if not sources:
            raise BadInput(
                f"{agent_id} has no repository to build from: set agents.{agent_id}.repo.url (or "
                "global_repo.url) in config.json, or put tools/, skills/ or identity/ into "
                f"{self._home / 'agents' / agent_id}. Without one it runs with Choir's own identity."
            )
        async with self._turns[agent_id]:
            return await self._build(agent_id, sources, report)

    async def _build(self, agent_id: str, sources: Sources, report: Report) -> Built:
        commits = await self._fetch(sources, report)
        current = await asyncio.to_thread(self._shelf.current, agent_id)
        # remove the files of an interrupted build; each agent has one build at a time
        await asyncio.to_thread(_clear, self._top / STAGING, agent_id)
        staging = self._top / STAGING / f"{agent_id}.{secrets.token_hex(4)}"
        try:
            if current is not None and await self._is_up_to_date(current, commits):
                await self._warn_again(agent_id, commits, staging, report)
                report.step("up to date", 1.0)
                return Built(current, False, tuple(commits.warnings))
            recipe = await self._prepare(agent_id, commits, staging, report)
            self._warn(recipe, commits, report)
            image = await self._builder.build(recipe, report)
        finally:
            await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)
        # the step that makes it the image of the next start
        await asyncio.to_thread(self._shelf.put, image)
        await self._prune(agent_id, report)
        report.step(f"built {image.version.image_version}", 1.0)
        log.info("image built", agent=agent_id, version=image.version.image_version)
        return Built(image, True, tuple(commits.warnings))

    def _warn(self, recipe: Recipe, commits: _Commits, report: Report) -> None:
        """Report the instructions in the repositories that this builder cannot execute."""
        for warning in self._builder.not_carried_out(recipe):
            commits.warnings.append(warning)
            report.line(f"warning: {warning}")

    async def _warn_again(
        self, agent_id: str, commits: _Commits, staging: Path, report: Report
    ) -> None:
        """Repeat the warnings for an image that is up to date: this caller may not have seen its build."""
        if self._builder.kind == "process":
            found = ((commits.shared, "shared"), (commits.own, "own"))
            shared, own = [
                await self._mirrors.read(each, staging / name) if each else None
                for each, name in found
            ]
            self._warn(Recipe(agent_id, (), shared, own), commits, report)

    async def _prune(self, agent_id: str, report: Report) -> None:
        """Remove images that are not needed; one that cannot be removed now goes with the next build."""
        try:
            needed = await asyncio.to_thread(self._shelf.needed, agent_id)
            for name in await self._builder.prune(agent_id, needed):
                report.line(f"removed the old image {name}")
        except Unavailable as error:
            report.line(f"warning: {error.message}")
            log.warning("old images were not removed", agent=agent_id, error=error.message)

    async def _fetch(self, sources: Sources, report: Report) -> _Commits:
        commits = _Commits()
        for source, share in ((sources.shared, 0.05), (sources.own, 0.25)):
            if source is None:
                continue
            report.step(f"fetching {source.spoken}", share)
            fetched = await self._mirrors.fetch(source)
            report.line(f"{source.spoken} is at {fetched.commit[:SHORT]}")
            if fetched.warning is not None:
                warning = (
                    f"{fetched.warning} Going on with {fetched.commit[:SHORT]}, which is stale."
                )
                commits.warnings.append(warning)
                report.line(f"warning: {warning}")
            if source.owner == GLOBAL:
                commits.shared = fetched
            else:
                commits.own = fetched
        return commits

    async def _is_up_to_date(self, current: Image, commits: _Commits) -> bool:
        version = current.version
        same = (
            current.kind == self._builder.kind
            and version.global_repo_commit == (commits.shared.commit if commits.shared else "")
            and version.agent_repo_commit == (commits.own.commit if commits.own else "")
        )
        # rebuild an image that was modified or removed, or that contains another release's agent
        return (
            same
            and await self._builder.fault(current) is None
            and not await self._builder.outdated(current)
        )

    async def _prepare(
        self, agent_id: str, commits: _Commits, staging: Path, report: Report
    ) -> Recipe:
        report.step("reading the repositories", 0.4)
        shared = await self._read(commits.shared, staging / "shared")
        own = await self._read(commits.own, staging / "own")
        report.step("merging", 0.55)
        pieces = await asyncio.to_thread(merge, shared, own)
        return Recipe(agent_id, pieces, shared, own)

    async def _read(self, fetched: Fetched | None, into: Path) -> Tree | None:
        if fetched is None:
            return None
        tree = await self._mirrors.read(fetched, into)
        compiles = self._builder.kind == "docker"
        faults = await asyncio.to_thread(contents_faults, tree, compiles=compiles)
        if faults:
            listed = "; ".join(faults[:MOST_FAULTS])
            raise BadInput(
                f"{fetched.source.spoken} ({fetched.commit[:SHORT]}) does not fit: {listed}."
            )
        return tree


def _clear(staging: Path, agent_id: str) -> None:
    # an agent id has no dot, so clearing `a` never matches files of `a-b`
    for path in staging.glob(f"{agent_id}.*"):
        shutil.rmtree(path, ignore_errors=True)
