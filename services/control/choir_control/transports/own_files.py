"""Where the certificates that choird makes for itself are kept: `$CHOIR_HOME/tls`, for their owner alone.

Used by `tls` and `authority`; choirctl reads `ca.pem` in the same place.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The files of one home."""

    directory: Path

    @property
    def authority(self) -> Path:
        """What clients trust: the certificate of this home's authority."""
        return self.directory / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """What signs; kept, so that what clients trust stays the same."""
        return self.directory / "ca.key"

    @property
    def certificate(self) -> Path:
        """The server's certificate, made anew at each start."""
        return self.directory / "server.pem"

    @property
    def key(self) -> Path:
        """The server's key, made anew at each start."""
        return self.directory / "server.key"


def write_private(path: Path, content: bytes) -> None:
    """Write a file of mode 0600 whole or not at all; raises StartupError."""
    draft = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
    except OSError as error:
        raise StartupError(f"Cannot write {path}: {error.strerror}.") from error
