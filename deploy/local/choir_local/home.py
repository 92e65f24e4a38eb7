"""Where things lie below `$CHOIR_HOME` (spec 6.3, plus `data/` and `run/`). Called by `stack`."""

from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError


@dataclass(frozen=True, slots=True)
class Home:
    """The state directory of one Choir."""

    root: Path

    @property
    def data(self) -> Path:
        """Return where Postgres and NATS keep theirs."""
        return self.root / "data"

    @property
    def logs(self) -> Path:
        """Return where each child writes `<name>.log`."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Return what describes the running stack and means nothing without it."""
        return self.root / "run"

    @property
    def sockets(self) -> Path:
        """Return the directory of the sockets."""
        return self.root / "socks"

    @property
    def postgres_sockets(self) -> Path:
        """Return the directory of Postgres' own socket."""
        return self.sockets / "pg"

    @property
    def gateway_socket(self) -> Path:
        """Return the console channel's socket."""
        return self.sockets / "gateway.sock"

    @property
    def control_socket(self) -> Path:
        """Return the host endpoint."""
        return self.sockets / "choird.sock"

    @property
    def config_file(self) -> Path:
        """Return the configuration, which control owns."""
        return self.root / "config.json"

    @property
    def secrets_file(self) -> Path:
        """Return the authoritative secret values."""
        return self.root / "secrets.json"

    @property
    def model_file(self) -> Path:
        """Return the record of the real model that answered last."""
        return self.data / "model.json"

    @property
    def state_file(self) -> Path:
        """Return the description of the running stack."""
        return self.run / "stack.json"

    @property
    def lock_file(self) -> Path:
        """Return the file whose lock says that a stack runs here."""
        return self.run / "stack.lock"

    def make(self) -> None:
        """Create the directories, for their owner only.

        Raises StartupError naming the directory that cannot be made.
        """
        for directory in (self.root, self.data, self.logs, self.run, self.sockets):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise StartupError(
                    f"The state directory {directory} cannot be made: {error.strerror}. "
                    "Choose another with CHOIR_HOME or --home."
                ) from error
        self.sockets.chmod(0o700)
