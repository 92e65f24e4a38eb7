"""Image builder of the process runtime: one directory per version, renamed into place when complete.

Called by `build` through the port.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import Collection
from pathlib import Path

from choir_common.choir_dir import read_version
from choir_common.errors import Unavailable
from choir_control.images.bake import (
    commits_of,
    describe_directory,
    write_pieces,
    write_version,
)
from choir_control.images.port import Image, Kind, Recipe, Report
from choir_control.repos.dockerfile import changes_in

NEW = ".new-"
ASIDE = ".aside-"


class ProcessImages:
    """`ImageBuilder` with images as directories below `$CHOIR_HOME/images`."""

    kind: Kind = "process"

    def __init__(self, home: Path) -> None:
        self._top = home / "images"

    async def build(self, recipe: Recipe, report: Report) -> Image:
        """Write the directory and rename it into place. Raises Unavailable."""
        report.step("writing the image", 0.7)
        try:
            return await asyncio.to_thread(self.make, recipe)
        except OSError as error:
            raise Unavailable(f"Cannot write the image of {recipe.agent_id}: {error}.") from error

    def not_carried_out(self, recipe: Recipe) -> tuple[str, ...]:
        """Return a warning with the Dockerfile instructions: the process runtime executes none of them."""
        found = [
            f"{name} of {whose}, {change}"
            for name, whose, tree in (
                ("Dockerfile.base", "the global repository", recipe.shared),
                ("Dockerfile", f"the repository of {recipe.agent_id}", recipe.own),
            )
            if tree is not None and name in tree.files
            for change in changes_in(tree.read(name).decode("utf-8", "replace"))
        ]
        if not found:
            return ()
        return (
            "Not carried out, because the process runtime builds no system image: "
            f"{'; '.join(found)}. Install what the agent needs on this machine, or run agents with "
            "CHOIR_RUNTIME=docker.",
        )

    async def fault(self, image: Image) -> str | None:
        """Return why a directory differs from what was built, or None."""
        return await asyncio.to_thread(directory_fault, image)

    async def outdated(self, image: Image) -> bool:
        """Return False: a directory does not contain the agent."""
        return False

    async def prune(self, agent_id: str, needed: Collection[str]) -> tuple[str, ...]:
        """Remove the directories of all other versions. Raises Unavailable."""
        try:
            return await asyncio.to_thread(_prune, self._top / agent_id, needed)
        except OSError as error:
            raise Unavailable(f"Cannot remove old images of {agent_id}: {error}.") from error

    def make(self, recipe: Recipe) -> Image:
        """Write the image directory; blocking. It becomes an image by the last rename."""
        shelf = self._top / recipe.agent_id
        shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
        clear_leftovers(shelf)
        new = shelf / f"{NEW}{secrets.token_hex(4)}"
        new.mkdir()
        write_pieces(recipe.pieces, new)
        version = describe_directory(recipe.agent_id, commits_of(recipe), new)
        write_version(version, new)
        place = shelf / version.image_version
        image = Image("process", str(place), version)
        if place.exists():
            if directory_fault(image) is None:
                shutil.rmtree(new)
                return image
            # the existing directory was modified: replace it by what was built
            os.replace(place, shelf / f"{ASIDE}{secrets.token_hex(4)}")  # noqa: PTH105
        os.rename(new, place)  # noqa: PTH104 the one step that makes it an image
        return image


def clear_leftovers(shelf: Path) -> None:
    """Remove the files of an interrupted build."""
    for path in [*shelf.glob(f"{NEW}*"), *shelf.glob(f"{ASIDE}*")]:
        shutil.rmtree(path, ignore_errors=True)


def _prune(shelf: Path, needed: Collection[str]) -> tuple[str, ...]:
    old = [p for p in shelf.iterdir() if p.is_dir() and not p.name.startswith(".")]
    removed = tuple(sorted(path.name for path in old if path.name not in needed))
    for name in removed:
        # Renamed first: a partly deleted image must not have an image's name.
        os.replace(shelf / name, shelf / f"{ASIDE}{secrets.token_hex(4)}")  # noqa: PTH105
    clear_leftovers(shelf)
    return removed


def directory_fault(image: Image) -> str | None:
    """Return why the directory differs from what was built, or None; blocking."""
    top = Path(image.place)
    there = read_version(top)
    if there is None:
        return f"{top} has no version.json"
    if there != image.version:
        return f"{top / 'version.json'} names another version"
    commits = (there.global_repo_commit, there.agent_repo_commit)
    now = describe_directory(there.agent_id, commits, top)
    if now.tool_manifest_hash != there.tool_manifest_hash:
        return f"the tools in {top} were changed"
    if now.skill_manifest_hash != there.skill_manifest_hash:
        return f"the skills in {top} were changed"
    if now != there:
        return f"files in {top} were changed"
    return None
