"""What runs: `run/stack.json`, written by the supervisor, read by choirctl and by tests."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from choir_common.wire.model import Moment, Wire
from choir_local.private_file import write_private

Phase = Literal["waiting", "starting", "ready", "restarting", "stopping", "stopped", "failed"]


class ChildState(Wire):
    """One child as it is now."""

    phase: Phase = "waiting"
    pid: int | None = None
    born: float | None = None
    """When the kernel started that process (epoch seconds): tells a pid that was used again."""
    restarts: int = 0
    since: Moment
    """When `phase` began."""
    last_exit: int | None = None
    """Exit code of the last process that ended; negative is the signal that killed it."""
    note: str = ""
    """Why it is not ready, in words."""
    log: str


class StackState(Wire):
    """The whole stack; `waiting` and `restarting` are for children only."""

    version: Literal[1] = 1
    phase: Phase
    supervisor_pid: int
    """It runs as long as `run/stack.lock` is locked."""
    started_at: Moment
    home: str
    error: str = ""
    """Why it failed: one paragraph for a person."""
    endpoints: dict[str, str] = Field(default_factory=dict)
    """Address of control, gateway, nats, postgres, rehearsal: no secrets."""
    model: str = ""
    """Which model answers, in words."""
    children: dict[str, ChildState] = Field(default_factory=dict)
    """By name, in the order they are started in."""


def write_state(path: Path, state: StackState) -> None:
    """Replace the file by `state`."""
    write_private(path, state.model_dump_json(indent=1))


def read_state(path: Path) -> StackState | None:
    """Return what the file says; None if there is none or another version wrote it."""
    try:
        return StackState.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
