"""Paths of the certificates that choird makes for itself, below `$CHOIR_HOME/tls`.

choirctl reads `ca.pem` in the same directory.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.file_lock import lock_file
from choir_common.i18n import _

LOCK_NAME = ".lock"
LOCK_TIMEOUT_S = 20.0
"""Time to make an authority's key and certificate on a slow machine, many times over."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The certificate files of one home."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, which clients trust."""
        return self.directory / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """The authority's key; kept, so that clients trust the same authority after a restart."""
        return self.directory / "ca.key"

    @property
    def certificate(self) -> Path:
        """The server's certificate, replaced at each start."""
        return self.directory / "server.pem"

    @property
    def key(self) -> Path:
        """The server's key, replaced at each start."""
        return self.directory / "server.key"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other control processes of this home from these files; raises StartupError."""
        path = self.directory / LOCK_NAME
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb")
        except OSError as error:
            raise StartupError(
                _("Cannot write {directory}: {error}.").format(
                    directory=self.directory, error=error.strerror
                )
            ) from error
        with lock:
            try:
                lock_file(lock.fileno(), LOCK_TIMEOUT_S)
            except TimeoutError:
                raise StartupError(
                    _(
                        "Another process has kept {path} locked for {lock_timeout_s:g} s. `fuser {path}` "
                        "shows which one; if it hangs, end it."
                    ).format(path=path, lock_timeout_s=LOCK_TIMEOUT_S)
                ) from None
            yield


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600, atomically; raises StartupError."""
    draft = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        draft.unlink(missing_ok=True)
        # Created with its final mode, so that the key is never readable by others.
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
    except OSError as error:
        raise StartupError(
            _("Cannot write {path}: {error}.").format(path=path, error=error.strerror)
        ) from error
