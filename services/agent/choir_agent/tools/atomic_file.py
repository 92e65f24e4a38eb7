"""A file that is written under a temporary name and then replaces its target atomically.

The temporary file is in the target's directory, opened by descriptor, and is renamed there. Changes to paths
in the meantime therefore cannot redirect the write, and no symlink is followed.
"""

import contextlib
import os
import stat

from choir_agent.tools.safe_open import not_a_file_error, path_error
from choir_agent.tools.tool import ToolFailed

NEW_FILE_MODE = 0o644


class AtomicFile:
    """Content being written for a target file; owns the descriptor of the target's directory."""

    def __init__(self, directory: int, canonical: str, *, must_be_new: bool = False) -> None:
        """Create the temporary file.

        Raises ToolFailed if the target is not a regular file, or exists although it must be new.
        """
        self._directory = directory
        self._canonical = canonical
        self._must_be_new = must_be_new
        self._name = os.path.basename(canonical)  # noqa: PTH119 - a name, not a place
        self._draft = f".choir-{os.urandom(8).hex()}"
        self._file = -1
        self._placed = False
        self.size = 0
        try:
            self._mode = self._present_mode()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._draft, flags, 0o600, dir_fd=directory)
        except OSError as error:
            os.close(directory)
            raise path_error(canonical, error) from error
        except ToolFailed:
            os.close(directory)
            raise

    @property
    def is_new(self) -> bool:
        """Return whether the target did not exist when the draft was created."""
        return self._mode is None

    def write(self, content: bytes) -> None:
        """Append to the content; raises ToolFailed."""
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise path_error(self._canonical, error) from error
        self.size += len(content)

    def commit(self) -> None:
        """Replace the target with the content; raises ToolFailed, in which case nothing has changed."""
        directory = self._directory
        try:
            os.fchmod(self._file, NEW_FILE_MODE if self._mode is None else self._mode)
            if self._must_be_new:
                # A link, unlike a rename, never replaces a file that was created in the meantime.
                os.link(self._draft, self._name, src_dir_fd=directory, dst_dir_fd=directory)
                os.unlink(self._draft, dir_fd=directory)
            else:
                os.rename(self._draft, self._name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            raise path_error(self._canonical, error) from error
        self._placed = True

    def discard(self) -> None:
        """Close the descriptors and delete the temporary file unless it was put in place."""
        if self._file < 0:
            return
        if not self._placed:
            with contextlib.suppress(OSError):
                os.unlink(self._draft, dir_fd=self._directory)
        os.close(self._file)
        os.close(self._directory)
        self._file = -1

    def _present_mode(self) -> int | None:
        try:
            status = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise not_a_file_error(self._canonical, status.st_mode)
        if self._must_be_new:
            raise ToolFailed("exists", f"{self._canonical!r} already exists.")
        return stat.S_IMODE(status.st_mode)
