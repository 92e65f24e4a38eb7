"""How new images get in place of the old ones, and back: built from a commit, or pulled from a registry.

Both are beside the old images before anything stops, so neither switching nor going back needs a build or a
download. Every method may be repeated after a kill.
"""

import os
import re
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Protocol

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _
from choir_local.home import Home, write_private
from choir_local.upgrade.code import Checkout
from choir_local.upgrade.compose_project import (
    BEFORE_TAG,
    CONTROL_SERVICE,
    NEXT_TAG,
    OWN_TAG,
    ComposeConfig,
    ComposeProject,
)
from choir_local.upgrade.programs import CommandRunner
from choir_local.upgrade.record import UpgradeRecord, UpgradeRecordFile, UpgradeVersions

PUBLISHED = "image:"
"""How the source of an upgrade begins if it is the version of published images."""
VERSION = "CHOIR_VERSION"
REVISION = "org.opencontainers.image.revision"
"""The label with the commit that an image was built from."""


class ComposeImages(Protocol):
    """New images with their compose file, and the way to them and back."""

    def check(self, config: ComposeConfig) -> None:
        """Raise InvalidRequest or Conflict if the project does not get its images this way."""

    async def prepare(self, record: UpgradeRecord, config: ComposeConfig) -> UpgradeVersions:
        """Fetch the new images beside the old ones; return what they are."""

    async def switch(self, record: UpgradeRecord) -> None:
        """Put the new images in place."""

    async def switch_back(self, record: UpgradeRecord) -> None:
        """Put the old images in place again; nothing to do if they are."""

    async def remove_rest(self) -> None:
        """Remove what is no longer needed."""


def compose_images(
    project: ComposeProject, home: Home, record: UpgradeRecord, run: CommandRunner
) -> ComposeImages:
    """Return the way to the images that a record names."""
    code = _ComposeCode(project.directory, UpgradeRecordFile(home).directory / "code", run)
    source = record.code.source
    if source.startswith(PUBLISHED):
        return PublishedImages(project, code, source.removeprefix(PUBLISHED))
    return BuiltImages(project, code, source)


class _ComposeCode:
    """The checkout of a compose file, and the files of the new commit beside it."""

    def __init__(self, directory: Path, extracted: Path, run: CommandRunner) -> None:
        self.directory = directory
        self.extracted = extracted
        self._run = run

    async def prepare(self, record: UpgradeRecord, ref: str) -> UpgradeVersions:
        """Fetch a commit and write its files beside the checkout, from which the containers run."""
        code = await Checkout(self.directory, ref, self._run).prepare(record)
        self.remove()
        archive = self.extracted.with_suffix(".tar")
        self.extracted.parent.mkdir(mode=0o700, exist_ok=True)
        words = ("archive", "--format=tar", f"--output={archive}", code.new)
        await self._run("git", *words, cwd=self.directory)
        with tarfile.open(archive) as file:
            if hasattr(tarfile, "data_filter"):
                file.extractall(self.extracted, filter="data")
            else:  # before Python 3.11.4; git archives no path outside of its tree
                file.extractall(self.extracted)  # noqa: S202
        archive.unlink()
        return code

    async def move(self, commit: str) -> None:
        """Move the checkout to a commit."""
        await self._run("git", "reset", "--quiet", "--keep", commit, cwd=self.directory)
        if Path(sys.prefix).is_relative_to(self.directory):
            # this choirctl runs from the same checkout
            await self._run(self.directory / "scripts" / "install")

    def remove(self) -> None:
        """Remove the files of the new commit."""
        shutil.rmtree(self.extracted, ignore_errors=True)


class BuiltImages:
    """Images that the project builds.

    Control starts agents by their tag `local`, so switching changes tags.
    """

    def __init__(self, project: ComposeProject, code: _ComposeCode, ref: str) -> None:
        self._project = project
        self._code = code
        self._ref = ref

    def check(self, config: ComposeConfig) -> None:
        """Raise InvalidRequest if the project starts published images."""
        if not config.own_images:
            raise InvalidRequest(
                _("This project starts published images. Name their version: --from image:VERSION.")
            )

    async def prepare(self, record: UpgradeRecord, config: ComposeConfig) -> UpgradeVersions:
        """Build the images of the new commit under a tag of their own."""
        code = await self._code.prepare(record, self._ref)
        await self._project.tag_images(config, OWN_TAG, BEFORE_TAG)
        await self._project.build(self._code.extracted, config)
        return code

    async def switch(self, record: UpgradeRecord) -> None:
        """Move the checkout and the tags."""
        await self._put_in_place(record.code.new, NEXT_TAG)

    async def switch_back(self, record: UpgradeRecord) -> None:
        """Move the checkout and the tags back."""
        await self._put_in_place(record.code.old, BEFORE_TAG)

    async def remove_rest(self) -> None:
        """Remove the tags of the upgrade, and the images that have no other."""
        await self._project.untag_images(await self._project.config())
        self._code.remove()

    async def _put_in_place(self, commit: str, tag: str) -> None:
        if commit:
            await self._code.move(commit)
            await self._project.tag_images(await self._project.config(), tag, OWN_TAG)


class PublishedImages:
    """Images of a registry. CHOIR_VERSION in `.env` names their version, so switching changes that line.

    Their label with the revision names the commit whose compose file belongs to them. Old images stay:
    another project of this machine may use them, and `docker image prune --all` removes what nothing uses.
    """

    def __init__(self, project: ComposeProject, code: _ComposeCode, version: str) -> None:
        self._project = project
        self._code = code
        self._version = version
        self._env_file = project.directory / ".env"
        self._env_before = code.extracted.with_name("env.before")

    def check(self, config: ComposeConfig) -> None:
        """Raise InvalidRequest if the project builds its images, Conflict if `.env` does not decide."""
        if config.own_images:
            raise InvalidRequest(
                _("This project builds its images. Name a commit: --from git or --from git:REF.")
            )
        if VERSION in os.environ or not self._env_file.is_file():
            raise Conflict(
                _(
                    "The upgrade changes CHOIR_VERSION in {env_file}. Write COMPOSE_FILE, CHOIR_IMAGES and "
                    "CHOIR_VERSION into that file, and do not set CHOIR_VERSION in the shell."
                ).format(env_file=self._env_file)
            )
        if config.services[CONTROL_SERVICE].image.endswith(f":{self._version}"):
            raise Conflict(
                _(
                    "{version} is the version in use. To go back, an upgrade needs another name: give the "
                    "new version's own tag."
                ).format(version=self._version)
            )

    async def prepare(self, record: UpgradeRecord, config: ComposeConfig) -> UpgradeVersions:
        """Pull the new images. Raises Conflict if they are older, or do not name their commit."""
        image = f"{config.published_prefix}{CONTROL_SERVICE}:{self._version}"
        await self._project.pull_image(image)
        label = f'{{{{index .Config.Labels "{REVISION}"}}}}'
        revision = await self._project.engine("image", "inspect", f"--format={label}", image)
        if not revision:
            raise Conflict(
                _(
                    "{image} has no label {label}, so the compose file that belongs to it is unknown. Build "
                    "it with CHOIR_REVISION, see docs/docker.md."
                ).format(image=image, label=REVISION)
            )
        code = await self._code.prepare(record, revision)
        await self._project.pull(self._code.extracted, config, self._version)
        write_private(self._env_before, self._env_file.read_text(), durable=True)
        return code

    async def switch(self, record: UpgradeRecord) -> None:
        """Move the checkout, and name the new version."""
        await self._code.move(record.code.new)
        self._write_env(with_version(self._env_before.read_text(), self._version))

    async def switch_back(self, record: UpgradeRecord) -> None:
        """Move the checkout and `.env` back."""
        if record.code.old:
            await self._code.move(record.code.old)
            self._write_env(self._env_before.read_text())

    async def remove_rest(self) -> None:
        """Remove the files of the new commit and the copy of `.env`."""
        self._code.remove()
        self._env_before.unlink(missing_ok=True)

    def _write_env(self, text: str) -> None:
        """Replace `.env` at once; it keeps its owner and mode."""
        before = self._env_file.stat()
        partial = self._env_file.with_name(".env.upgrade")
        write_private(partial, text, durable=True)
        os.chown(partial, before.st_uid, before.st_gid)
        partial.chmod(before.st_mode & 0o777)
        partial.replace(self._env_file)


def with_version(text: str, version: str) -> str:
    """Return the text of a `.env` with another CHOIR_VERSION; a missing line is added."""
    line = f"{VERSION}={version}"
    changed, count = re.subn(rf"(?m)^\s*(?:export\s+)?{VERSION}\s*=.*$", lambda _: line, text)
    return changed if count else f"{text.rstrip()}\n{line}\n".lstrip("\n")
