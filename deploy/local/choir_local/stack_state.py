"""State of the stack in `run/stack.json`: written by the supervisor, read by choirctl and tests."""

from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field, ValidationError

from choir_common.wire.model import AwareTime, WireModel
from choir_local.private_file import write_private

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
