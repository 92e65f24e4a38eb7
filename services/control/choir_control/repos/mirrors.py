"""Bare mirrors of the repositories below `$CHOIR_HOME/repos`.

Called by `images` and when the configuration is loaded. When a fetch fails, the last commit stays
usable and is returned with a warning. `tree` reads the files.
"""

import asyncio
import contextlib
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from choir_common.errors import ChoirError, Unavailable
from choir_common.wire.configuring import ChangeKind, RepoFile
from choir_control.repos.folder import commit_folder
from choir_control.repos.git import FETCH_WITHIN_S, Git
from choir_control.repos.keys import Keys
from choir_control.repos.source import GLOBAL, Source
from choir_control.repos.tree import Tree, write_tree

log = structlog.get_logger("choir.repos")

SHORT = 12
# T: the executable bit changed
KINDS: Mapping[str, ChangeKind] = {"A": "added", "D": "removed", "M": "changed", "T": "changed"}
LEFTOVERS = ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/tmp_objdir-*")


@dataclass(frozen=True, slots=True)
class Fetched:
    """The commit of a repository; `warning` is the reason when it could not be fetched."""

    source: Source
    commit: str
    warning: str | None = None

    @property
    def stale(self) -> bool:
        """Return whether the remote may have newer commits."""
        return self.warning is not None


class Mirrors:
    """The mirrors of one installation; used by one process at a time."""

    def __init__(
        self, home: Path, environment: Mapping[str, str], keys: Keys | None = None
    ) -> None:
        self._top = home / "repos"
        self._git = Git(environment, keys)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def directory(self, owner: str) -> Path:
        """Return the directory of an owner's mirror."""
        return self._top / GLOBAL if owner == GLOBAL else self._top / "agents" / owner

    async def fetch(self, source: Source, within_s: float = FETCH_WITHIN_S) -> Fetched:
        """Fetch the newest commit; if that fails, return the last one with a warning.

        Raises Unavailable when there is no earlier commit.
        """
        async with self._turns[source.owner]:
            warning = None
            try:
                await self._update(source, within_s)
            except ChoirError as error:
                warning = f"Cannot fetch {source.spoken}: {error.message}"
            commit = await self._known(source)
            if commit is None:
                raise Unavailable(
                    f"{warning or f'There is no commit in {source.spoken}.'} There is no earlier "
                    f"clone of it either. Check agents.{source.owner}.repo"
                    f"{' (global_repo)' if source.owner == GLOBAL else ''} in config.json."
                )
        if warning:
            log.warning("stale repository", owner=source.owner, commit=commit, reason=warning)
        return Fetched(source, commit, warning)

    async def last(self, source: Source) -> str | None:
        """Return the commit of the last fetch, or None, without contacting the remote."""
        async with self._turns[source.owner]:
            return await self._known(source)

    async def read(self, fetched: Fetched, into: Path) -> Tree:
        """Write the files of a fetched commit into the new directory `into`.

        Raises BadInput for a repository that contains anything but plain files within the size limits.
        """
        return await write_tree(
            self._git,
            self.directory(fetched.source.owner),
            fetched.commit,
            fetched.source.spoken,
            into,
        )

    async def changed(self, owner: str, before: str | None, after: str) -> list[RepoFile] | None:
        """Return the files that differ between two commits; all files if `before` is None.

        Returns None when the earlier commit is not in the mirror.
        """
        directory = self.directory(owner)
        try:
            if before is None:
                listed = await self._git.run(
                    directory, "ls-tree", "-r", "-z", "--name-only", "--full-tree", after
                )
                return [RepoFile(path=path, kind="added") for path in _texts(listed)]
            listed = await self._git.run(
                directory, "diff-tree", "-r", "-z", "--no-renames", "--name-status", before, after
            )
        except ChoirError:
            return None
        words = _texts(listed)
        return [
            RepoFile(path=path, kind=KINDS[kind[0]])
            for kind, path in zip(words[::2], words[1::2], strict=True)
        ]

    async def _update(self, source: Source, within_s: float) -> None:
        directory = self.directory(source.owner)
        await asyncio.to_thread(_clear_leftovers, directory)
        # a mirror that git cannot read is created again
        if not await self._is_sound(directory):
            await asyncio.to_thread(_make_room, directory)
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
            within_s=within_s,
        )  # fmt: skip

    async def _is_sound(self, directory: Path) -> bool:
        try:
            return await self._git.run(directory, "rev-parse", "--is-bare-repository") == b"true\n"
        except ChoirError:
            return False

    async def _known(self, source: Source) -> str | None:
        directory, name = self.directory(source.owner), f"{source.local_ref}^{{commit}}"
        try:
            found = await self._git.run(directory, "rev-parse", "--verify", "--quiet", name)
            commit = found.decode().strip()
            # a commit with missing files is not usable
            await self._git.run(directory, "ls-tree", "-r", "--full-tree", commit)
        except ChoirError:
            return None
        return commit


def _texts(listed: bytes) -> list[str]:
    return [part.decode("utf-8", "replace") for part in listed.split(b"\0")[:-1]]


def _clear_leftovers(directory: Path) -> None:
    """Remove the files of a git process that was killed; nothing else writes here, so none is in use."""
    for pattern in LEFTOVERS:
        for path in directory.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _make_room(directory: Path) -> None:
    """Prepare an empty directory for a new mirror; never delete one that is not a mirror."""
    try:
        with contextlib.suppress(FileNotFoundError):
            if (
                any(directory.iterdir())
                and not (directory / "HEAD").exists()
                and not _half_made(directory)
            ):
                raise Unavailable(
                    f"{directory} is not empty and no mirror of Choir's: move it away."
                )
            shutil.rmtree(directory)
        directory.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise Unavailable(f"Cannot make {directory}: {error.strerror}.") from error


def _half_made(directory: Path) -> bool:
    return (directory / "objects").is_dir() or (directory / "refs").is_dir()
