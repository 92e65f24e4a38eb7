"""Checks and trials of external tools: what the agent's own programs report to control and choirctl."""

from typing import Literal

from pydantic import Field

from choir_common.wire.config import WorkspaceLimits
from choir_common.wire.connections import HostConnections
from choir_common.wire.events import ToolStatus
from choir_common.wire.model import JsonObject, WireModel

MAX_TRIAL_INPUT_BYTES = 1_000_000
MAX_STDERR_CHARS = 8_000
FaultLevel = Literal["refused", "warning"]
"""`refused`: the agent does not start with it; `warning`: it does, but it is probably a mistake."""


class ToolCheckRequest(WireModel):
    """Which tools the agent's loader shall read."""

    directory: str
    """A folder with manifests, as they are written; or a whole /choir with `image`."""
    image: bool = False


class ToolFinding(WireModel):
    """What is wrong with a file of a tool."""

    file: str
    """Relative to the directory that was checked; empty for the directory itself."""
    line: int | None = None
    """From 1; None if the file has no lines."""
    level: FaultLevel = "refused"
    message: str
    advice: str = ""
    """What to do, where the message does not say it."""
    tool: str = ""
    """Name of the tool, or that of its manifest's file."""


class LoadableTool(WireModel):
    """A tool that the agent's loader accepts."""

    name: str
    description: str
    file: str
    """Its manifest, relative to the directory that was checked."""
    program: str
    side_effect: str
    network: bool
    hosts: tuple[str, ...] = ()
    secret_resources: tuple[str, ...] = ()
    timeout_ms: int


class ToolCheckReport(WireModel):
    """The tools of a directory, and every fault."""

    tools: tuple[LoadableTool, ...] = ()
    faults: tuple[ToolFinding, ...] = ()

    @property
    def refusals(self) -> tuple[ToolFinding, ...]:
        """Return the faults with which the agent does not start."""
        return tuple(fault for fault in self.faults if fault.level == "refused")


class TryTool(WireModel):
    """Run one call of a tool, as it is now in the agent's folder or repository."""

    input: JsonObject = Field(default_factory=dict)


class ToolTrialOrder(WireModel):
    """The call that the agent's trial program runs; it arrives on its standard input."""

    tool: str
    input: JsonObject
    workspace: str
    choir_dir: str
    egress_socket: str = ""
    egress_key: str = Field(default="", repr=False)
    workspace_limits: WorkspaceLimits = WorkspaceLimits()


class ToolTrial(WireModel):
    """One call of a tool that no agent made."""

    tool: str
    input: JsonObject
    status: ToolStatus
    output: JsonObject
    """The result as the model would get it."""
    duration_ms: int
    exit_code: int | None = None
    """Negative for a signal; None if the program did not run, or was killed at its timeout."""
    stderr: str = ""
    network: bool = False
    """Whether the manifest lets it open connections."""
    connections: tuple[HostConnections, ...] = ()
    refusals: tuple[str, ...] = ()
    """What the walls around the call refused or limited, as far as it is visible from outside."""
    missing_walls: tuple[str, ...] = ()
    """What this host does not support of them."""
    secrets_left_out: tuple[str, ...] = ()
    """Secrets that a real call would get."""
