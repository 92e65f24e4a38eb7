"""The workspace directory: the only files that tools can reach.

A path is resolved once to its canonical form. The lock and the open both use that form, so they always refer
to the same file.

The staging area `.choirtmp/` has files on their way to and from the user. It is not covered by the
workspace's lock but has its own: the host writes to `recv` and takes files from `send` while a command runs.
"""

import contextlib
import os
import stat
from pathlib import Path

import structlog

from choir_agent.tools.atomic_file import AtomicFile
from choir_agent.tools.safe_open import SafeOpener, not_a_file_error, path_error
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace_quota import WorkspaceQuota
from choir_common.errors import StartupError

log = structlog.get_logger("choir.agent.tools")

MAX_PATH = 4096
NEW_DIR_MODE = 0o755
STAGING_DIR = ".choirtmp"
SEND_DIR = f"{STAGING_DIR}/send"
RECEIVE_DIR = f"{STAGING_DIR}/recv"
ARTIFACTS_DIR = f"{STAGING_DIR}/artifacts"
STAGING_LOCK = "choirtmp"


class Workspace:
    """Directory that confines the file access of tools: every path is resolved inside it."""

    def __init__(self, root: Path) -> None:
        try:
            self.root = root.resolve(strict=True)
            self._root_fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StartupError(f"Cannot open the workspace {root}: {error.strerror}.") from error
        self._opener = SafeOpener(self._root_fd)
        self.quota = WorkspaceQuota(self.root)

    def close(self) -> None:
        """Close the directory's descriptor."""
        os.close(self._root_fd)

    def canonical(self, path: str) -> str:
        """Return `path` relative to the workspace, without symlinks, `.` and `..`.

        Raises ToolFailed for a path that is malformed or leads out of the workspace.
        """
        if not path or "\x00" in path or len(os.fsencode(path)) > MAX_PATH:
            raise ToolFailed("bad_path", "A path must have 1 to 4096 bytes and no NUL character.")
        try:
            # Resolves missing paths, too: a lock on a file that a call is about to create needs its
            # final name.
            real = os.path.realpath(self.root / path)
        except OSError as error:
            raise ToolFailed("bad_path", f"Cannot resolve {path!r}: {error.strerror}.") from error
        if real != str(self.root) and not real.startswith(f"{self.root}/"):
            raise ToolFailed(
                "outside_workspace",
                f"{path!r} is outside the workspace. Use a path relative to the workspace.",
            )
        return os.path.relpath(real, self.root)

    def hard_link_id(self, canonical: str) -> str | None:
        """Return the identity of a file that has several names (hard links); None for any other file."""
        try:
            status = os.stat(canonical, dir_fd=self._root_fd, follow_symlinks=False)
        except OSError:
            return None
        several = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
        return f"{status.st_dev}:{status.st_ino}" if several else None

    def open_file(self, canonical: str) -> int:
        """Open a regular file for reading and return its descriptor.

        Raises ToolFailed for a directory, FIFO, device or socket, or if it cannot be opened.
        """
        descriptor = self._open(canonical, os.O_RDONLY)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
        raise not_a_file_error(canonical, mode)

    def open_file_or_directory(self, canonical: str) -> int:
        """Open a regular file or a directory for reading and return its descriptor.

        Raises ToolFailed for anything else, or if it cannot be opened.
        """
        descriptor = self._open(canonical, os.O_RDONLY)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return descriptor
        os.close(descriptor)
        raise not_a_file_error(canonical, mode)

    def open_directory(self, canonical: str) -> int:
        """Open a directory and return its descriptor; raises ToolFailed if it is not one."""
        return self._open(canonical, os.O_RDONLY | os.O_DIRECTORY)

    def make_directories(self, canonical: str) -> int:
        """Create a directory and its missing parents; return the directory's descriptor.

        Raises ToolFailed if a component exists and is not a directory.
        """
        try:
            return self._make_directories(canonical)
        except OSError as error:
            raise path_error(canonical, error) from error

    def replace_file(self, canonical: str, content: bytes, *, must_be_new: bool = False) -> bool:
        """Replace the file with `content` atomically; return whether the file is new.

        Missing directories are created. Raises ToolFailed if the target is not a regular file, or
        exists although it `must_be_new`, or if the workspace would exceed its limits.
        """
        draft = self.create_atomic_file(canonical, must_be_new=must_be_new, size=len(content))
        try:
            draft.write(content)
            draft.commit()
        finally:
            draft.discard()
        return draft.is_new

    def create_atomic_file(
        self, canonical: str, *, must_be_new: bool = False, size: int = 0
    ) -> AtomicFile:
        """Start a file that replaces its target when it is complete; missing directories are created.

        `size` is its size in bytes, if it is known. Raises ToolFailed as `replace_file` does.
        """
        parent, name = os.path.split(canonical)
        if name in ("", ".", ".."):
            raise ToolFailed("not_a_file", "The workspace itself is not a file.")
        self.quota.check_write(size)
        return AtomicFile(self.make_directories(parent), canonical, must_be_new=must_be_new)

    def _open(self, canonical: str, flags: int) -> int:
        try:
            return self._opener.open(canonical, flags)
        except OSError as error:
            raise path_error(canonical, error) from error

    def _make_directories(self, parent: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY
        path_so_far = ""
        for part in parent.split("/") if parent else []:
            inside = self._opener.open(path_so_far or ".", flags)
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, NEW_DIR_MODE, dir_fd=inside)
            finally:
                os.close(inside)
            path_so_far = f"{path_so_far}/{part}" if path_so_far else part
        return self._opener.open(path_so_far or ".", flags)


def is_in_staging(canonical: str) -> bool:
    """Return whether a canonical path is in the staging area."""
    return canonical == STAGING_DIR or canonical.startswith(f"{STAGING_DIR}/")


def create_staging(workspace: Workspace) -> None:
    """Create the directories. Anything else at these paths is renamed, never followed or deleted."""
    for path in (STAGING_DIR, SEND_DIR, RECEIVE_DIR, ARTIFACTS_DIR):
        try:
            _move_aside(workspace, path)
            os.close(workspace.make_directories(path))
        except (ToolFailed, OSError) as error:
            # The session works without it; tools that need it report an error.
            log.warning("staging area unusable", place=path, error=str(error))


def _move_aside(workspace: Workspace, path: str) -> None:
    parent, name = os.path.split(path)
    directory = workspace.open_directory(parent or ".")
    try:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                aside = f"{name}.aside-{os.urandom(4).hex()}"
                os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(directory)
