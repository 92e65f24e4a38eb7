"""File lock that allows one stack per home; the kernel releases it when its holder exits."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from choir_common.errors import StartupError
from choir_local.home import Home


@contextlib.contextmanager
def lock_home(home: Home) -> Iterator[None]:
    """Lock the home during the block.

    Raises StartupError naming the process that has the lock.
    """
    fd = os.open(home.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StartupError(
                f"Choir already runs in {home.root} (process {holder}). Stop it with `choirctl "
                "down`, or choose another state directory with CHOIR_HOME or --home."
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(fd)


def is_locked(home: Home) -> bool:
    """Return whether a stack runs in this home."""
    try:
        fd = os.open(home.lock_file, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
