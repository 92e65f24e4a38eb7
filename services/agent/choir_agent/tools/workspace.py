"""The workspace directory: the only files there are for tools (spec 15.4).

Called by the arbiter (canonical paths for locks) and the file tools. A path is resolved once to its canonical
form; the lock is taken on that form and the file is opened by it, so both always mean the same file.
"""

import contextlib
import os
import stat
from pathlib import Path

from choir_agent.tools.beneath import Beneath
from choir_agent.tools.tool import ToolFailed
from choir_common.errors import StartupError

MAX_PATH = 4096
NEW_FILE_MODE = 0o644
NEW_DIR_MODE = 0o755


class Workspace:
    """A directory that nothing leaves."""

    def __init__(self, root: Path) -> None:
        try:
            self.root = root.resolve(strict=True)
            self._root_fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StartupError(f"Cannot open the workspace {root}: {error.strerror}.") from error
        self._beneath = Beneath(self._root_fd)

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._root_fd)

    def canonical(self, path: str) -> str:
        """Return `path` relative to the workspace, without symlinks, `.` and `..`.

        Raises ToolFailed for a path that is malformed or leads out of the workspace.
        """
        if not path or "\x00" in path or len(os.fsencode(path)) > MAX_PATH:
            raise ToolFailed("bad_path", "A path has 1 to 4096 bytes and no NUL.")
        try:
            real = os.path.realpath(self.root / path)
        except OSError as error:
            raise ToolFailed("bad_path", f"Cannot resolve {path!r}: {error.strerror}.") from error
        if real != str(self.root) and not real.startswith(f"{self.root}/"):
            raise ToolFailed(
                "outside_workspace",
                f"{path!r} leads out of the workspace. Use a path inside it, relative to its top.",
            )
        return os.path.relpath(real, self.root)

    def open_file(self, canonical: str) -> int:
        """Open a regular file for reading; returns its descriptor.

        Raises ToolFailed for a directory, fifo, device or socket, or one that cannot be opened.
        """
        descriptor = self._open(canonical, os.O_RDONLY)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
        raise _not_a_file(canonical, mode)

    def open_place(self, canonical: str) -> int:
        """Open a regular file or a directory for reading; returns its descriptor.

        Raises ToolFailed for anything else, or what cannot be opened.
        """
        descriptor = self._open(canonical, os.O_RDONLY)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return descriptor
        os.close(descriptor)
        raise _not_a_file(canonical, mode)

    def open_directory(self, canonical: str) -> int:
        """Open a directory; returns its descriptor. Raises ToolFailed when it is none."""
        return self._open(canonical, os.O_RDONLY | os.O_DIRECTORY)

    def make_directories(self, canonical: str) -> int:
        """Make a directory and those above it, where they are missing; returns its descriptor.

        Raises ToolFailed when something else stands in the way.
        """
        try:
            return self._make_directories(canonical)
        except OSError as error:
            raise _failed(canonical, error) from error

    def replace_file(self, canonical: str, content: bytes, *, must_be_new: bool = False) -> bool:
        """Put `content` in the place of the file, all or nothing; returns whether it is new.

        Missing directories are made. Raises ToolFailed when the place is not a regular file, or is
        taken although it `must_be_new`.
        """
        parent, name = os.path.split(canonical)
        if name in ("", ".", ".."):
            raise ToolFailed("not_a_file", "The workspace itself is not a file.")
        directory = self.make_directories(parent)
        try:
            mode = self._present_mode(directory, canonical, name)
            if mode is not None and must_be_new:
                raise ToolFailed("exists", f"There is a {canonical!r} already.")
            self._swap(directory, name, content, mode or NEW_FILE_MODE, must_be_new)
        except OSError as error:
            raise _failed(canonical, error) from error
        finally:
            os.close(directory)
        return mode is None

    def _open(self, canonical: str, flags: int) -> int:
        try:
            return self._beneath.open(canonical, flags)
        except OSError as error:
            raise _failed(canonical, error) from error

    def _make_directories(self, parent: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY
        made = ""
        for part in parent.split("/") if parent else []:
            inside = self._beneath.open(made or ".", flags)
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, NEW_DIR_MODE, dir_fd=inside)
            finally:
                os.close(inside)
            made = f"{made}/{part}" if made else part
        return self._beneath.open(made or ".", flags)

    def _present_mode(self, directory: int, canonical: str, name: str) -> int | None:
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise _not_a_file(canonical, found.st_mode)
        return stat.S_IMODE(found.st_mode)

    def _swap(
        self, directory: int, name: str, content: bytes, mode: int, must_be_new: bool
    ) -> None:
        draft = f".choir-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o600, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
            if must_be_new:
                # a link, unlike a rename, never replaces what came there meanwhile
                os.link(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
                os.unlink(draft, dir_fd=directory)
            else:
                os.rename(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=directory)
            raise


def _not_a_file(path: str, mode: int) -> ToolFailed:
    kind = "directory" if stat.S_ISDIR(mode) else "symlink" if stat.S_ISLNK(mode) else "device"
    if stat.S_ISFIFO(mode):
        kind = "fifo"
    if stat.S_ISSOCK(mode):
        kind = "socket"
    return ToolFailed("not_a_file", f"{path!r} is a {kind}, not a regular file.")


def _failed(path: str, error: OSError) -> ToolFailed:
    match error:
        case FileExistsError():
            return ToolFailed("exists", f"There is a {path!r} already.")
        case FileNotFoundError():
            return ToolFailed("not_found", f"There is no {path!r} in the workspace.")
        case PermissionError():
            return ToolFailed("denied", f"No permission for {path!r}.")
        case IsADirectoryError() | NotADirectoryError():
            return ToolFailed("not_a_file", f"{path!r}: {error.strerror}.")
    return ToolFailed("io_error", f"{path!r}: {error.strerror}.")
