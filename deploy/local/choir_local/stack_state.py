"""State of the stack in `run/stack.json`, and the file lock that allows one stack per home.

The supervisor writes the state; choirctl and tests read it. The kernel releases the lock when its holder
exits.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field, ValidationError

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.model import AwareTime, WireModel
from choir_local.home import Home, write_private

Phase = Literal["waiting", "starting", "ready", "restarting", "stopping", "stopped", "failed"]


class ChildState(WireModel):
    """Current state of one child."""

    phase: Phase = "waiting"
    pid: int | None = None
    born: float | None = None
    """Start time of the process by the kernel (Unix seconds); distinguishes a reused pid."""
    restarts: int = 0
    since: AwareTime
    """Start time of `phase`."""
    last_exit: int | None = None
    """Exit code of the last process that ended; negative for the signal that killed it."""
    note: str = ""
    """Reason why it is not ready, as text."""
    log: str


class StackState(WireModel):
    """State of the whole stack; the phases `waiting` and `restarting` are for children only."""

    version: Literal[1] = 1
    phase: Phase
    supervisor_pid: int
    """The supervisor runs as long as `run/stack.lock` is locked."""
    started_at: AwareTime
    home: str
    error: str = ""
    """Reason of a failure: one paragraph for the user."""
    endpoints: dict[str, str] = Field(default_factory=dict)
    """Addresses of control, gateway, nats, postgres and rehearsal, without secrets."""
    model: str = ""
    """Description of the model in use."""
    model_notes: tuple[str, ...] = ()
    """The model servers that were found, and how to choose another model."""
    children: dict[str, ChildState] = Field(default_factory=dict)
    """Children by name, in the order of their start."""


class StackObserver(Protocol):
    """Receiver of the stack's progress."""

    def show(self, state: StackState) -> None:
        """Take the state; called whenever it changes. Must not raise."""


def write_state(path: Path, state: StackState) -> None:
    """Replace the file by `state`."""
    write_private(path, state.model_dump_json(indent=1))


def read_state(path: Path) -> StackState | None:
    """Return the state, or None if there is no file or another version wrote it."""
    try:
        return StackState.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


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
            holder = lock_holder(home) or "unknown"
            raise StartupError(
                _(
                    "Choir already runs in {root} (process {holder}). Stop it with `choirctl down`, "
                    "or choose another state directory with CHOIR_HOME or --home."
                ).format(root=home.root, holder=holder)
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(fd)


def lock_holder(home: Home) -> int | None:
    """Return the pid that the lock file names; None while its holder has not written it yet."""
    try:
        return int(home.lock_file.read_text())
    except (OSError, ValueError):
        return None


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
