"""Build of an agent's image: fetch, check for new commits, merge, build, make current.

It starts no agent. The previous image stays the current one until the last step.
"""

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.config import Config
from choir_control.configuration.current import ConfigService
from choir_control.images.builder import BuildInput, Image, ImageBuilder, ProgressReporter
from choir_control.images.image_files import write_files
from choir_control.images.image_store import ImageStore
from choir_control.images.merge import merge_repositories
from choir_control.images.repositories.content_checks import find_content_faults
from choir_control.images.repositories.mirrors import COMMIT_CHARS, FetchedRepository, Mirrors
from choir_control.images.repositories.source import (
    GLOBAL_OWNER,
    RepositorySource,
    configured_source,
    folder_source,
)
from choir_control.images.repositories.tree import RepositoryTree
from choir_control.images.tool_check import ToolChecker

log = structlog.get_logger("choir.images")

STAGING_DIR = ".staging"
TRIALS_DIR = ".trials"
MAX_FAULTS = 20


@dataclass(frozen=True, slots=True)
class ImageSources:
    """The repositories of one agent."""

    global_source: RepositorySource | None
    agent_source: RepositorySource | None

    @property
    def is_folder_only(self) -> bool:
        """Return whether the agent is built from its folder only, without any repository in config.json."""
        return (
            self.global_source is None
            and self.agent_source is not None
            and self.agent_source.protocol == "folder"
        )

    def __bool__(self) -> bool:
        """Return whether there is anything to build from."""
        return self.global_source is not None or self.agent_source is not None


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Result of a build; `fresh` is False when the image was up to date."""

    image: Image
    is_new: bool
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _FetchedSources:
    shared: FetchedRepository | None = None
    own: FetchedRepository | None = None
    warnings: list[str] = field(default_factory=list)


def image_sources(config: Config, agent_id: str, home: Path) -> ImageSources:
    """Return an agent's repositories, or its folder; raises InvalidRequest for an invalid address."""
    own = configured_source(config, agent_id) or folder_source(home, agent_id)
    return ImageSources(configured_source(config, GLOBAL_OWNER), own)


class ImageBuildService:
    """Builds images, one at a time for each agent."""

    def __init__(
        self,
        *,
        home: Path,
        configuration: ConfigService,
        mirrors: Mirrors,
        builder: ImageBuilder,
        image_store: ImageStore,
        tools: ToolChecker,
    ) -> None:
        self._home, self._top = home, home / "images"
        self._configuration = configuration
        self._mirrors = mirrors
        self._builder = builder
        self._image_store = image_store
        self._tools = tools
        self._locks = KeyedLock()
        self._trial_locks = KeyedLock()

    def sources(self, agent_id: str) -> ImageSources:
        """Return what an agent's image is built from now; raises InvalidRequest."""
        return image_sources(self._configuration.current.config, agent_id, self._home)

    async def build(self, agent_id: str, report: ProgressReporter) -> BuildResult:
        """Return the image of the newest commits; build it if it does not exist.

        Raises NotFound for an unknown agent, InvalidRequest for one without a repository or with invalid
        contents, Unavailable.
        """
        sources = self._required_sources(agent_id)
        async with self._locks.of(agent_id):
            return await self._build(agent_id, sources, report)

    @contextlib.asynccontextmanager
    async def staged(self, agent_id: str) -> AsyncIterator[Path]:
        """Write the newest files as /choir into a directory that ends with the context; build no image.

        One at a time for each agent. Raises the errors of `build`.
        """
        sources = self._required_sources(agent_id)
        report, top = _SilentReporter(), self._top / TRIALS_DIR
        async with self._trial_locks.of(agent_id):
            await asyncio.to_thread(_clear, top, agent_id)
            staging = top / f"{agent_id}.{secrets.token_hex(4)}"
            try:
                async with self._locks.of(agent_id):
                    commits = await self._fetch(sources, report)
                    recipe = await self._prepare(agent_id, commits, staging / "sources", report)
                await asyncio.to_thread(write_files, recipe.files, staging / "choir")
                yield staging / "choir"
            finally:
                await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)

    @property
    def has_engine(self) -> bool:
        """Whether images are those of an engine, so that only their agent can load the tools in them."""
        return self._builder.kind == "docker"

    async def current_docker_image(self, agent_id: str) -> str:
        """Return the id of the agent's current image in the engine, or an empty string without one."""
        image = await asyncio.to_thread(self._image_store.get_current, agent_id)
        return image.place if image is not None and image.kind == "docker" else ""

    def _required_sources(self, agent_id: str) -> ImageSources:
        self._configuration.current.agent(agent_id)
        sources = self.sources(agent_id)
        if not sources:
            raise InvalidRequest(
                _(
                    "{agent_id} has no repository: set agents.{agent_id}.repo.url (or global_repo.url) in "
                    "config.json, or put tools/, skills/ or identity/ into {folder}. Without one it runs "
                    "with the default identity."
                ).format(agent_id=agent_id, folder=self._home / "agents" / agent_id)
            )
        return sources

    async def _build(
        self, agent_id: str, sources: ImageSources, report: ProgressReporter
    ) -> BuildResult:
        commits = await self._fetch(sources, report)
        current = await asyncio.to_thread(self._image_store.get_current, agent_id)
        # remove the files of an interrupted build; each agent has one build at a time
        await asyncio.to_thread(_clear, self._top / STAGING_DIR, agent_id)
        staging = self._top / STAGING_DIR / f"{agent_id}.{secrets.token_hex(4)}"
        try:
            if current is not None and await self._is_up_to_date(current, commits):
                await self._warn_again(agent_id, commits, staging, report)
                report.progress(_("up to date"), 1.0)
                return BuildResult(current, False, tuple(commits.warnings))
            was_whole = current is not None and await self._builder.find_drift(current) is None
            recipe = await self._prepare(agent_id, commits, staging, report)
            self._warn(recipe, commits, report)
            image = await self._builder.build(recipe, report)
            # before it is current: the image that runs stays the one of the next start
            report.progress(_("checking the tools"), 0.9)
            await self._tools.check(image)
        finally:
            await asyncio.to_thread(shutil.rmtree, staging, ignore_errors=True)
        # the step that makes it the image of the next start
        await asyncio.to_thread(self._image_store.set_current, image)
        if was_whole and image == current:  # only its registry could tell
            report.progress("up to date", 1.0)
            return BuildResult(image, False, tuple(commits.warnings))
        await self._prune(agent_id, report)
        report.progress(f"built {image.version.image_version}", 1.0)
        log.info("image built", agent=agent_id, version=image.version.image_version)
        return BuildResult(image, True, tuple(commits.warnings))

    def _warn(self, recipe: BuildInput, commits: _FetchedSources, report: ProgressReporter) -> None:
        """Report the instructions in the repositories that this builder cannot execute."""
        for warning in self._builder.unsupported_instructions(recipe):
            commits.warnings.append(warning)
            report.output(f"warning: {warning}")

    async def _warn_again(
        self, agent_id: str, commits: _FetchedSources, staging: Path, report: ProgressReporter
    ) -> None:
        """Repeat the warnings for an image that is up to date: this caller may not have seen its build."""
        if self._builder.kind == "process":
            repositories = ((commits.shared, "shared"), (commits.own, "own"))
            shared, own = [
                await self._mirrors.write_files(commit, staging / name) if commit else None
                for commit, name in repositories
            ]
            self._warn(BuildInput(agent_id, (), shared, own), commits, report)

    async def _prune(self, agent_id: str, report: ProgressReporter) -> None:
        """Remove images that are not needed; one that cannot be removed now goes with the next build."""
        try:
            versions = await asyncio.to_thread(self._image_store.needed_versions, agent_id)
            for name in await self._builder.remove_unneeded(agent_id, versions):
                report.output(_("removed the old image {name}").format(name=name))
        except Unavailable as error:
            report.output(f"warning: {error.message}")
            log.warning("old images were not removed", agent=agent_id, error=error.message)

    async def _fetch(self, sources: ImageSources, report: ProgressReporter) -> _FetchedSources:
        commits = _FetchedSources()
        for source, share in ((sources.global_source, 0.05), (sources.agent_source, 0.25)):
            if source is None:
                continue
            report.progress(f"fetching {source.display_name}", share)
            repository = await self._mirrors.fetch(source)
            report.output(
                _("{display_name} is at {commit}").format(
                    display_name=source.display_name, commit=repository.commit[:COMMIT_CHARS]
                )
            )
            if repository.warning is not None:
                warning = _("{warning} Using {commit}, which is stale.").format(
                    warning=repository.warning, commit=repository.commit[:COMMIT_CHARS]
                )
                commits.warnings.append(warning)
                report.output(f"warning: {warning}")
            if source.owner == GLOBAL_OWNER:
                commits.shared = repository
            else:
                commits.own = repository
        return commits

    async def _is_up_to_date(self, current: Image, commits: _FetchedSources) -> bool:
        version = current.version
        same = (
            current.kind == self._builder.kind
            and version.global_repo_commit == (commits.shared.commit if commits.shared else "")
            and version.agent_repo_commit == (commits.own.commit if commits.own else "")
        )
        # rebuild an image that was modified or removed, or that contains another release's agent
        return (
            same
            and await self._builder.find_drift(current) is None
            and not await self._builder.is_outdated(current)
        )

    async def _prepare(
        self, agent_id: str, commits: _FetchedSources, staging: Path, report: ProgressReporter
    ) -> BuildInput:
        report.progress(_("reading the repositories"), 0.4)
        shared = await self._read(commits.shared, staging / "shared")
        own = await self._read(commits.own, staging / "own")
        report.progress("merging", 0.55)
        pieces = await asyncio.to_thread(merge_repositories, shared, own)
        return BuildInput(agent_id, pieces, shared, own)

    async def _read(
        self, repository: FetchedRepository | None, into: Path
    ) -> RepositoryTree | None:
        if repository is None:
            return None
        tree = await self._mirrors.write_files(repository, into)
        compiles = self._builder.kind == "docker"
        faults = await asyncio.to_thread(find_content_faults, tree, can_compile=compiles)
        if faults:
            fault_text = "; ".join(faults[:MAX_FAULTS])
            raise InvalidRequest(
                _("{display_name} ({commit}) is invalid: {fault_text}.").format(
                    display_name=repository.source.display_name,
                    commit=repository.commit[:COMMIT_CHARS],
                    fault_text=fault_text,
                )
            )
        return tree


class _SilentReporter:
    """Receiver of progress that nobody sees."""

    def progress(self, text: str, share: float | None = None) -> None:
        """Ignore a step."""

    def output(self, text: str) -> None:
        """Ignore a line."""


def _clear(staging: Path, agent_id: str) -> None:
    # an agent id has no dot, so clearing `a` never matches files of `a-b`
    for path in staging.glob(f"{agent_id}.*"):
        shutil.rmtree(path, ignore_errors=True)
