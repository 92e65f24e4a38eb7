"""Bare mirrors of the repositories below `$CHOIR_HOME/repos`.

When a fetch fails, the last commit stays usable and is returned with a warning. An agent's folder is
committed to its mirror, so that it passes the same checks as a repository. The commit has no parent
and a fixed author and time: equal files give an equal commit, and the image built from them stays up
to date.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from choir_common.errors import ChoirError, InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_common.wire.config_api import ChangeKind, RepoFile
from choir_control.images.repositories.credentials import GitCredentials
from choir_control.images.repositories.git import FETCH_TIMEOUT_S, Git
from choir_control.images.repositories.leftovers import clear_leftovers
from choir_control.images.repositories.source import FOLDER_CONTENTS, GLOBAL_OWNER, RepositorySource
from choir_control.images.repositories.tree import (
    RepositoryTree,
    parse_listing,
    write_tree,
)

INDEX_FILE = "folder-index"
COMMIT_TIME = "1970-01-01T00:00:00Z"
NAME, ADDRESS = "choird", "choird@localhost"
COMMIT_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": NAME,
    "GIT_AUTHOR_EMAIL": ADDRESS,
    "GIT_AUTHOR_DATE": COMMIT_TIME,
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": ADDRESS,
    "GIT_COMMITTER_DATE": COMMIT_TIME,
}
log = structlog.get_logger("choir.repos")
COMMIT_CHARS = 12
# T: the executable bit changed
CHANGE_KINDS: Mapping[str, ChangeKind] = {
    "A": "added",
    "D": "removed",
    "M": "changed",
    "T": "changed",
}


async def commit_folder(
    git: Git, directory: Path, source: RepositorySource, within_s: float
) -> None:
    """Make the folder's files the newest commit of the mirror in `directory`.

    Symbolic links and nested repositories are committed as such; reading the commit then refuses them.
    Raises Unavailable, DeadlineExceeded.
    """
    folder, index = Path(source.url), directory / INDEX_FILE
    names = [name for name in FOLDER_CONTENTS if (folder / name).is_dir()]
    # an index of an earlier run would keep files that were deleted since
    index.unlink(missing_ok=True)
    more = {**COMMIT_ENVIRONMENT, "GIT_INDEX_FILE": str(index)}
    at = {"GIT_WORK_TREE": str(folder)}
    add = ("add", "--force", "--all", "--", *names)
    await git.run(directory, *add, extra_environment=more | at, cwd=folder, timeout_s=within_s)
    tree = await git.run(directory, "write-tree", extra_environment=more)
    arguments = ("commit-tree", "--no-gpg-sign", "-m", "The folder", tree.decode().strip())
    commit = await git.run(directory, *arguments, extra_environment=more)
    await git.run(directory, "update-ref", source.local_ref, commit.decode().strip())


@dataclass(frozen=True, slots=True)
class FetchedRepository:
    """The commit of a repository; `warning` is the reason when it could not be fetched."""

    source: RepositorySource
    commit: str
    warning: str | None = None

    @property
    def is_stale(self) -> bool:
        """Return whether the remote may have newer commits."""
        return self.warning is not None


class Mirrors:
    """The mirrors of one installation; used by one process at a time."""

    def __init__(
        self, home: Path, environment: Mapping[str, str], keys: GitCredentials | None = None
    ) -> None:
        self._top = home / "repos"
        self._git = Git(environment, keys)
        self._locks = KeyedLock()

    def directory_of(self, owner: str) -> Path:
        """Return the directory of an owner's mirror."""
        return self._top / GLOBAL_OWNER if owner == GLOBAL_OWNER else self._top / "agents" / owner

    async def fetch(
        self, source: RepositorySource, within_s: float = FETCH_TIMEOUT_S
    ) -> FetchedRepository:
        """Fetch the newest commit; if that fails, return the last one with a warning.

        Raises Unavailable when there is no earlier commit.
        """
        async with self._locks.of(source.owner):
            warning = None
            try:
                await self._update(source, within_s)
            except ChoirError as error:
                warning = _("Cannot fetch {display_name}: {error}").format(
                    display_name=source.display_name, error=error.message
                )
            commit = await self._known(source)
            if commit is None:
                raise Unavailable(
                    _(
                        "{warning} There is no earlier clone of it either. Check "
                        "agents.{owner}.repo{value} in config.json."
                    ).format(
                        warning=warning
                        or _("There is no commit in {name}.").format(name=source.display_name),
                        owner=source.owner,
                        value=" (global_repo)" if source.owner == GLOBAL_OWNER else "",
                    )
                )
        if warning:
            log.warning(
                "cannot fetch the repository; using the last known commit",
                owner=source.owner,
                commit=commit,
                reason=warning,
            )
        return FetchedRepository(source, commit, warning)

    async def last_commit(self, source: RepositorySource) -> str | None:
        """Return the commit of the last fetch, or None, without contacting the remote."""
        async with self._locks.of(source.owner):
            return await self._known(source)

    async def read_file(self, source: RepositorySource, path: str, max_bytes: int) -> bytes:
        """Return a file of the last fetched commit, without contacting the remote.

        Raises InvalidRequest when there is no plain file at `path`, or when it is too large.
        """
        directory, name = self.directory_of(source.owner), f"{source.local_ref}:{path}"
        try:
            listing = await self._git.run(
                directory, "ls-tree", "-z", "--long", "--full-tree", source.local_ref, "--", path
            )
            entries = parse_listing(listing, source.display_name)
            if len(entries) != 1 or entries[0].path != path:
                raise InvalidRequest(
                    _("There is no file {path} in {display_name}.").format(
                        path=path, display_name=source.display_name
                    )
                )
            if entries[0].size > max_bytes:
                raise InvalidRequest(
                    _(
                        "{path} in {display_name} has {size:,} bytes; at most {max_bytes:,} are allowed."
                    ).format(
                        path=path,
                        display_name=source.display_name,
                        size=entries[0].size,
                        max_bytes=max_bytes,
                    )
                )
            return await self._git.run(directory, "cat-file", "blob", name)
        except Unavailable as error:
            raise InvalidRequest(
                _("Cannot read {path} in {display_name}: {error}").format(
                    path=path, display_name=source.display_name, error=error.message
                )
            ) from error

    async def write_files(self, repository: FetchedRepository, into: Path) -> RepositoryTree:
        """Write the files of a fetched commit into the new directory `into`.

        Raises InvalidRequest for a repository that contains anything but plain files within the size limits.
        """
        return await write_tree(
            self._git,
            self.directory_of(repository.source.owner),
            repository.commit,
            repository.source.display_name,
            into,
        )

    async def list_changes(
        self, owner: str, before: str | None, after: str
    ) -> list[RepoFile] | None:
        """Return the files that differ between two commits; all files if `before` is None.

        Returns None when the earlier commit is not in the mirror.
        """
        directory = self.directory_of(owner)
        try:
            if before is None:
                listing = await self._git.run(
                    directory, "ls-tree", "-r", "-z", "--name-only", "--full-tree", after
                )
                return [RepoFile(path=path, kind="added") for path in _texts(listing)]
            listing = await self._git.run(
                directory, "diff-tree", "-r", "-z", "--no-renames", "--name-status", before, after
            )
        except ChoirError:
            return None
        fields = _texts(listing)
        return [
            RepoFile(path=path, kind=CHANGE_KINDS[kind[0]])
            for kind, path in zip(fields[::2], fields[1::2], strict=True)
        ]

    async def _update(self, source: RepositorySource, within_s: float) -> None:
        directory = self.directory_of(source.owner)
        await asyncio.to_thread(clear_leftovers, directory)
        # a mirror that git cannot read is created again
        if not await self._is_sound(directory):
            await asyncio.to_thread(_prepare_directory, directory)
            await self._git.run(directory, "init", "--bare", "--quiet", "--template=")
        if source.protocol == "folder":
            await commit_folder(self._git, directory, source, within_s)
            return
        await self._git.run(
            directory,
            "fetch", "--quiet", "--force", "--depth=1", "--no-tags", "--no-write-fetch-head",
            "--no-recurse-submodules", "--no-auto-maintenance", "--end-of-options",
            source.url, f"+{source.ref}:{source.local_ref}",
            remote=source,
            timeout_s=within_s,
        )  # fmt: skip

    async def _is_sound(self, directory: Path) -> bool:
        try:
            return await self._git.run(directory, "rev-parse", "--is-bare-repository") == b"true\n"
        except ChoirError:
            return False

    async def _known(self, source: RepositorySource) -> str | None:
        directory, name = self.directory_of(source.owner), f"{source.local_ref}^{{commit}}"
        try:
            output = await self._git.run(directory, "rev-parse", "--verify", "--quiet", name)
            commit = output.decode().strip()
            # a commit with missing files is not usable
            await self._git.run(directory, "ls-tree", "-r", "--full-tree", commit)
        except ChoirError:
            return None
        return commit


def _texts(listing: bytes) -> list[str]:
    return [part.decode("utf-8", "replace") for part in listing.split(b"\0")[:-1]]


def _prepare_directory(directory: Path) -> None:
    """Prepare an empty directory for a new mirror; never delete one that is not a mirror."""
    try:
        with contextlib.suppress(FileNotFoundError):
            if (
                any(directory.iterdir())
                and not (directory / "HEAD").exists()
                and not _is_incomplete_mirror(directory)
            ):
                raise Unavailable(
                    _("{directory} is not empty and not a mirror of Choir: move it away.").format(
                        directory=directory
                    )
                )
            shutil.rmtree(directory)
        directory.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise Unavailable(
            _("Cannot make {directory}: {error}.").format(directory=directory, error=error.strerror)
        ) from error


def _is_incomplete_mirror(directory: Path) -> bool:
    return (directory / "objects").is_dir() or (directory / "refs").is_dir()
