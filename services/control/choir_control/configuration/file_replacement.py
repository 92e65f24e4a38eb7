"""Atomic replacement of a file of the operator, which keeps its mode and its owner."""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from choir_common.errors import Unavailable
from choir_common.i18n import _

# One writer at a time in this process, so that two cannot both find the file unchanged.
_writing = threading.Lock()


@contextlib.contextmanager
def replacing_file(path: Path, content: bytes) -> Iterator[None]:
    """Replace a file's content after the block; nothing is changed if the block raises.

    The block checks that the file is still the expected one: it runs at the last moment possible, so
    that an operator's edit is not overwritten. Raises Unavailable if the file cannot be written.
    """
    target = Path(os.path.realpath(path))  # a link to the file stays a link
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        status = target.stat()
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:
                os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, status.st_mode & 0o777)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        with _writing:
            yield
            partial.replace(target)
        # a rename is durable only when its directory is synced
        _sync(target.parent)
    except OSError as error:
        raise Unavailable(
            _("Cannot write {path}: {error}.").format(path=path, error=error.strerror)
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
