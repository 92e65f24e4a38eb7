"""Open files below a root directory and never outside it, despite symlinks and renames.

Symlinks in the paths are already resolved. A symlink that appears in between is an error and is not followed.
Uses openat2(RESOLVE_BENEATH) where the kernel has it, otherwise opens one path component at a time.

`path_error` and `not_a_file_error` convert the errors into ToolFailed messages for the model.
"""

import ctypes
import errno
import os
import platform
import stat
import struct
import sys

from choir_agent.tools.tool import ToolFailed

SYS_OPENAT2 = 437
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
_RESOLVE = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS

# Non-blocking, so that opening a FIFO cannot hang before its type is checked; never as the
# controlling terminal.
ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
# openat2 rejects a mode unless O_CREAT is set.
_CREATING = os.O_CREAT
# The errors of seccomp filters and of old kernels.
_ABSENT = {errno.ENOSYS, errno.EPERM}


class SafeOpener:
    """Opens files relative to a root directory and refuses paths that leave it."""

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.uses_openat2 = self._probe()

    def open(self, path: str, flags: int, mode: int = 0) -> int:
        """Open `path`, relative to the root and free of symlinks, and return a descriptor.

        Raises OSError: ELOOP for a symlink in the path, EXDEV for a path that leaves the root.
        """
        if self.uses_openat2:
            return self._openat2(path, flags | ALWAYS, mode)
        return self._walk(path, flags | ALWAYS, mode)

    def _probe(self) -> bool:
        if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
            return False
        try:
            os.close(self._openat2(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0))
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise
        return True

    def _openat2(self, path: str, flags: int, mode: int) -> int:
        how = struct.pack("QQQ", flags, mode if flags & _CREATING else 0, _RESOLVE)
        descriptor = int(
            self._libc.syscall(
                ctypes.c_long(SYS_OPENAT2),
                ctypes.c_int(self._root_fd),
                ctypes.c_char_p(os.fsencode(path)),
                ctypes.c_char_p(how),
                ctypes.c_size_t(len(how)),
            )
        )
        if descriptor < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
        return descriptor

    def _walk(self, path: str, flags: int, mode: int) -> int:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or ".." in parts:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        directory = os.dup(self._root_fd)
        try:
            for part in parts[:-1]:
                step_flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                subdirectory = os.open(part, os.O_RDONLY | step_flags, dir_fd=directory)
                os.close(directory)
                directory = subdirectory
            last = parts[-1] if parts else "."
            return os.open(last, flags | os.O_NOFOLLOW, mode, dir_fd=directory)
        finally:
            os.close(directory)


def not_a_file_error(path: str, mode: int) -> ToolFailed:
    """Return the error for a directory, symlink, FIFO, socket or device."""
    kind = "directory" if stat.S_ISDIR(mode) else "symlink" if stat.S_ISLNK(mode) else "device"
    if stat.S_ISFIFO(mode):
        kind = "fifo"
    if stat.S_ISSOCK(mode):
        kind = "socket"
    return ToolFailed("not_a_file", f"{path!r} is a {kind}, not a regular file.")


def path_error(path: str, error: OSError) -> ToolFailed:
    """Return the error for an OSError."""
    match error:
        case FileExistsError():
            return ToolFailed("exists", f"{path!r} already exists.")
        case FileNotFoundError():
            return ToolFailed("not_found", f"{path!r} does not exist in the workspace.")
        case PermissionError():
            return ToolFailed("denied", f"Permission denied for {path!r}.")
        case IsADirectoryError() | NotADirectoryError():
            return ToolFailed("not_a_file", f"{path!r}: {error.strerror}.")
    return ToolFailed("io_error", f"{path!r}: {error.strerror}.")
