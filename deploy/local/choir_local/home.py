"""Paths below `$CHOIR_HOME`, and atomic writes of small files in it that only their owner may read."""

import os
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _


@dataclass(frozen=True, slots=True)
class Home:
    """The state directory of one installation."""

    root: Path

    @property
    def data(self) -> Path:
        """Return the directory of Postgres' and NATS' data."""
        return self.root / "data"

    @property
    def logs(self) -> Path:
        """Return the directory of the log files `<name>.log`."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Return the directory of files that describe the running stack and are useless without it."""
        return self.root / "run"

    @property
    def sockets(self) -> Path:
        """Return the directory of the sockets."""
        return self.root / "socks"

    @property
    def postgres_sockets(self) -> Path:
        """Return the directory of Postgres' socket."""
        return self.sockets / "pg"

    @property
    def gateway_socket(self) -> Path:
        """Return the socket of the console channel."""
        return self.sockets / "gateway.sock"

    @property
    def egress_socket(self) -> Path:
        """Return the egress service's socket for control."""
        return self.sockets / "agents" / "egress" / "control.sock"

    @property
    def control_socket(self) -> Path:
        """Return control's socket."""
        return self.sockets / "choird.sock"

    def service_sockets(self, name: str) -> Path:
        """Return the directory of the socket of a confined service."""
        return self.sockets / name

    def service_state(self, name: str) -> Path:
        """Return the directory of a confined service's temporary files."""
        return self.run / name

    @property
    def config_file(self) -> Path:
        """Return the configuration file, which control owns."""
        return self.root / "config.json"

    @property
    def secrets_file(self) -> Path:
        """Return the file of secret values."""
        return self.root / "secrets.json"

    @property
    def audit_keys_file(self) -> Path:
        """Return the file of the keys that sign the logs."""
        return self.root / "audit-keys.json"

    @property
    def model_file(self) -> Path:
        """Return the record of the last real model."""
        return self.data / "model.json"

    @property
    def state_file(self) -> Path:
        """Return the description of the running stack."""
        return self.run / "stack.json"

    @property
    def lock_file(self) -> Path:
        """Return the file that is locked while a stack runs."""
        return self.run / "stack.lock"

    def make(self) -> None:
        """Create the directories, accessible only by their owner.

        Raises StartupError naming the directory that cannot be created.
        """
        for directory in (self.root, self.data, self.logs, self.run, self.sockets):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StartupError(
                    _(
                        "The state directory {directory} cannot be created: {strerror}. Choose another "
                        "with CHOIR_HOME or --home."
                    ).format(directory=directory, strerror=error.strerror)
                ) from error
        self.sockets.chmod(0o700)


def write_private(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace `path` by a file with mode 0600; with `durable` it survives a power failure."""
    partial = path.with_name(f".{path.name}.partial")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)
    if durable:
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make a rename in `directory` survive a power failure."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
