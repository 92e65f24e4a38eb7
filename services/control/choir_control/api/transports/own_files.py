"""Paths of the certificates that choird makes for itself, below `$CHOIR_HOME/tls`.

choirctl reads `ca.pem` in the same directory.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError


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
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.directory / ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartupError(f"Cannot write {self.directory}: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
            yield
        finally:
            os.close(lock)


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
        raise StartupError(f"Cannot write {path}: {error.strerror}.") from error
