"""The port `AgentRuntime`: start, stop and list agents, and report every exit.

Implemented by `process` (confined child processes) and `docker` (hardened containers).
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from choir_common.wire.local_tools import ToolTrialOrder


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """Address at which an agent reaches control."""

    endpoint: str
    """`http(s)://host:port`, or `unix://` and the path of a socket."""
    ca_pem: str = ""
    """CA certificates, the only ones the agent trusts; empty for plain HTTP on loopback and for sockets."""


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """Where agents on other machines reach the egress proxy."""

    address: str
    """`host:port`."""
    certificate: str
    """The proxy's certificate, as PEM: the only one that they trust there."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Parameters of one start of an agent, with the host's paths; the adapter translates them."""

    agent_id: str
    session_id: str
    epoch: int
    lease_token: str
    workspace: Path
    """Writable and kept between starts."""
    choir_dir: Path
    """Identity files (USER.md, SOUL.md, SOUL-CORE.md, version.json), read-only for the agent."""
    socket_dir: Path
    """Directory with mode 0700 and the socket `choir.sock`, through which the agent reaches control."""
    docker_image: str = ""
    """A built image with its own /choir (docker runtime); without one, `choir_dir` is mounted there."""
    image_version: str = ""
    """Version in /choir/version.json; empty for an agent without repositories."""
    egress_key: str = ""
    """Key at the egress proxy, whose socket is `proxy.sock` in `socket_dir`: the agent's only way to the
    network. Empty if the agent connects without the proxy."""
    http: ControlAddress | None = None
    """Set when agents reach control over HTTP instead of the socket."""

    def egress_socket(self, sockets: str) -> str:
        """Return the path of the egress proxy's socket, or an empty string without a proxy."""
        return f"{sockets}/proxy.sock" if self.egress_key else ""

    def control_address(self, sockets: str) -> ControlAddress:
        """Return the address of control; `sockets` is the socket directory as the agent sees it."""
        return self.http or ControlAddress(f"unix://{sockets}/choir.sock")

    @classmethod
    def for_trial(
        cls,
        agent_id: str,
        *,
        workspace: Path,
        choir_dir: Path,
        socket_dir: Path,
        docker_image: str,
        egress_key: str,
    ) -> "LaunchSpec":
        """Return the parameters of a tool's trial: those of the agent, without a session."""
        return cls(
            agent_id=agent_id,
            session_id="",
            epoch=0,
            lease_token="",
            workspace=workspace,
            choir_dir=choir_dir,
            socket_dir=socket_dir,
            docker_image=docker_image,
            egress_key=egress_key,
        )


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A running agent process; `handle` identifies it for the adapter (pid or container id)."""

    agent_id: str
    session_id: str
    epoch: int
    handle: str
    pid: int | None


@dataclass(frozen=True, slots=True)
class AgentExit:
    """The exit of an agent process, expected or not; `detail` is a text for operators."""

    agent_id: str
    session_id: str
    epoch: int
    code: int | None
    detail: str


class AgentRuntime(Protocol):
    """Runtime for agents; at most one process per agent id."""

    async def start(self, spec: LaunchSpec) -> RunningAgent:
        """Start the agent and write its boot line to its standard input.

        Raises Conflict when that agent already runs, and Unavailable when it cannot be started.
        """
        ...

    async def stop(self, agent_id: str, grace_s: float) -> None:
        """Stop the agent: SIGTERM, wait up to `grace_s` seconds, then kill it and everything it started."""
        ...

    async def run_trial(self, spec: LaunchSpec, order: ToolTrialOrder, timeout_s: float) -> bytes:
        """Run the agent's trial program behind the walls of an agent; return its report.

        The order's paths are those of this host. It runs beside the agent and ends after `timeout_s`
        seconds at the latest. Raises InvalidRequest with what the program says, and Unavailable.
        """
        ...

    async def list_running(self) -> list[RunningAgent]:
        """List the running agents that this control process started."""
        ...

    async def unavailable_reason(self) -> str:
        """Return why agents cannot be started or stopped at the moment, or an empty string."""
        ...

    def limitations(self) -> tuple[str, ...]:
        """Return which parts of the agents' confinement this host does not support, in operators' words."""
        ...

    def call_limits(self) -> str:
        """Return what limits memory and processes of tool calls, and why, in operators' words."""
        ...

    def archive_log(self, agent_id: str, session_id: str) -> None:
        """Archive the agent's log because the session is over; if the process still runs, after its exit."""
        ...

    async def remove_orphans(self) -> int:
        """Kill agents that an earlier control process left running; return how many."""
        ...

    def exits(self) -> AsyncIterator[AgentExit]:
        """Yield every exit as it happens, including those caused by `stop`."""
        ...

    async def claim_address(self) -> None:
        """Lead clients to this control process, because it leads. Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Kill the agents that still run and release the adapter's resources."""
        ...

    async def hand_over(self) -> None:
        """Release the adapter's resources, because another control process is about to lead."""
        ...
