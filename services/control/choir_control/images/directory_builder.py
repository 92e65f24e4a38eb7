"""Image builder of the process and kubernetes runtimes.

An image is one directory per version, renamed into place when it is complete.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import Collection
from pathlib import Path

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_common.identity_dir import read_version
from choir_control.images.builder import BuildInput, Image, ImageKind, ProgressReporter
from choir_control.images.image_files import (
    recipe_commits,
    version_of_directory,
    write_files,
    write_version,
)
from choir_control.images.repositories.dockerfile_checks import list_image_changes

NEW_PREFIX = ".new-"
REMOVED_PREFIX = ".aside-"


class DirectoryImageBuilder:
    """`ImageBuilder` with images as directories below `$CHOIR_HOME/images`."""

    kind: ImageKind = "process"

    def __init__(self, home: Path) -> None:
        self._top = home / "images"

    async def build(self, recipe: BuildInput, report: ProgressReporter) -> Image:
        """Write the directory and rename it into place. Raises Unavailable."""
        report.progress(_("writing the image"), 0.7)
        try:
            return await asyncio.to_thread(self.write_image, recipe)
        except OSError as error:
            raise Unavailable(
                _("Cannot write the image of {agent_id}: {error}.").format(
                    agent_id=recipe.agent_id, error=error
                )
            ) from error

    def unsupported_instructions(self, recipe: BuildInput) -> tuple[str, ...]:
        """Return a warning with the Dockerfile instructions: this builder executes none of them."""
        unsupported = [
            f"{name} of {whose}, {change}"
            for name, whose, tree in (
                ("Dockerfile.base", _("the global repository"), recipe.global_tree),
                (
                    "Dockerfile",
                    _("the repository of {agent_id}").format(agent_id=recipe.agent_id),
                    recipe.agent_tree,
                ),
            )
            if tree is not None and name in tree.files
            for change in list_image_changes(tree.read(name).decode("utf-8", "replace"))
        ]
        if not unsupported:
            return ()
        return (
            _(
                "Ignored, because this runtime builds no system image: {unsupported}. Install what the "
                "agent needs on this machine, or run agents with CHOIR_RUNTIME=docker; with "
                "CHOIR_RUNTIME=kubernetes, set CHOIR_BUILD_REPOSITORY, or put it into the image of "
                "CHOIR_AGENT_IMAGE."
            ).format(unsupported="; ".join(unsupported)),
        )

    async def find_drift(self, image: Image) -> str | None:
        """Return why a directory differs from what was built, or None."""
        return await asyncio.to_thread(find_directory_drift, image)

    async def is_outdated(self, image: Image) -> bool:
        """Return False: a directory does not contain the agent."""
        return False

    async def remove_unneeded(
        self, agent_id: str, needed_versions: Collection[str]
    ) -> tuple[str, ...]:
        """Remove the directories of all other versions. Raises Unavailable."""
        try:
            return await asyncio.to_thread(_prune, self._top / agent_id, needed_versions)
        except OSError as error:
            raise Unavailable(
                _("Cannot remove old images of {agent_id}: {error}.").format(
                    agent_id=agent_id, error=error
                )
            ) from error

    async def remove_orphans(self) -> int:
        """Return 0: a build ends with the process that began it."""
        return 0

    async def close(self) -> None:
        """Release nothing."""

    def write_image(self, recipe: BuildInput) -> Image:
        """Write the image directory; blocking. It becomes an image by the last rename."""
        agent_dir = self._top / recipe.agent_id
        agent_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_incomplete_builds(agent_dir)
        new = agent_dir / f"{NEW_PREFIX}{secrets.token_hex(4)}"
        new.mkdir()
        write_files(recipe.files, new)
        version = version_of_directory(recipe.agent_id, recipe_commits(recipe), new)
        write_version(version, new)
        directory = agent_dir / version.image_version
        image = Image("process", str(directory), version)
        if directory.exists():
            if find_directory_drift(image) is None:
                shutil.rmtree(new)
                return image
            # the existing directory was modified: replace it by what was built
            os.replace(directory, agent_dir / f"{REMOVED_PREFIX}{secrets.token_hex(4)}")  # noqa: PTH105
        os.rename(new, directory)  # noqa: PTH104 the one step that makes it an image
        return image


def remove_incomplete_builds(agent_dir: Path) -> None:
    """Remove the files of an interrupted build."""
    for path in [*agent_dir.glob(f"{NEW_PREFIX}*"), *agent_dir.glob(f"{REMOVED_PREFIX}*")]:
        shutil.rmtree(path, ignore_errors=True)


def _prune(agent_dir: Path, needed_versions: Collection[str]) -> tuple[str, ...]:
    old = [p for p in agent_dir.iterdir() if p.is_dir() and not p.name.startswith(".")]
    names = tuple(sorted(path.name for path in old if path.name not in needed_versions))
    for name in names:
        # Renamed first: a partly deleted image must not have an image's name.
        os.replace(agent_dir / name, agent_dir / f"{REMOVED_PREFIX}{secrets.token_hex(4)}")  # noqa: PTH105
    remove_incomplete_builds(agent_dir)
    return names


def find_directory_drift(image: Image) -> str | None:
    """Return why the directory differs from what was built, or None; blocking."""
    top = Path(image.place)
    version = read_version(top)
    if version is None:
        return _("{top} has no version.json").format(top=top)
    if version != image.version:
        return _("{file} has another version").format(file=top / "version.json")
    commits = (version.global_repo_commit, version.agent_repo_commit)
    actual = version_of_directory(version.agent_id, commits, top)
    if actual.tool_manifest_hash != version.tool_manifest_hash:
        return _("the tools in {top} were changed").format(top=top)
    if actual.skill_manifest_hash != version.skill_manifest_hash:
        return _("the skills in {top} were changed").format(top=top)
    if actual != version:
        return _("files in {top} were changed").format(top=top)
    return None
