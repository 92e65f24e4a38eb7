"""The port `AgentRuntime`: start, stop, list, and tell of every exit.

Called by `sessions`; implemented by `process` (confined child processes) and `docker` (hardened
containers, spec 15.3).
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class HttpWay:
    """Control's address where agents do not use their own sockets."""

    endpoint: str
    """`http(s)://host:port`."""
    ca_pem: str = ""
    """The certificates that an agent trusts, and no others; empty for plain HTTP on loopback."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One start of one agent; paths are the host's, the adapter translates them for the agent."""

    agent_id: str
    session_id: str
    epoch: int
    lease_token: str
    workspace: Path
    """Writable, kept between starts."""
    choir_dir: Path
    """Identity files (USER.md, SOUL.md, SOUL-CORE.md, version.json), read-only to the agent."""
    socket_dir: Path
    """0700 directory that holds `choir.sock`, the agent's door to control."""
    docker_image: str = ""
    """A built image with its own /choir (docker runtime); without one `choir_dir` is mounted there."""
    image_version: str = ""
    """What /choir/version.json says; empty for an agent without repositories."""
    http: HttpWay | None = None
    """Set where agents reach control over HTTP instead."""

    def way(self, sockets: str) -> HttpWay:
        """Return the way to control, of an agent that sees its sockets' directory at `sockets`."""
        return self.http or HttpWay(f"unix://{sockets}/choir.sock")


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A live agent process; `handle` is what the adapter knows it by (pid, container id)."""

    agent_id: str
    session_id: str
    epoch: int
    handle: str
    pid: int | None


@dataclass(frozen=True, slots=True)
class AgentExit:
    """An agent process has ended, whoever wanted it; `detail` is for people."""

    agent_id: str
    session_id: str
    epoch: int
    code: int | None
    detail: str


class AgentRuntime(Protocol):
    """Runs agents; at most one process per agent id."""

    async def start(self, spec: LaunchSpec) -> RunningAgent:
        """Start the agent and hand it its boot line on standard input.

        Raises Conflict when that agent already runs, Unavailable when it cannot be started.
        """
        ...

    async def stop(self, agent_id: str, grace_s: float) -> None:
        """End the agent: ask (SIGTERM), wait up to `grace_s`, then kill it and all it started."""
        ...

    async def running(self) -> list[RunningAgent]:
        """List the live agents this control started."""
        ...

    async def trouble(self) -> str:
        """Say why no agent can be started or ended right now; empty while they can."""
        ...

    def end_session(self, agent_id: str, session_id: str) -> None:
        """Put the agent's log away once its process has ended: the session is over (spec 22.2)."""
        ...

    async def remove_orphans(self) -> int:
        """End agents that an earlier control left behind; return how many (spec 6.2)."""
        ...

    def exits(self) -> AsyncIterator[AgentExit]:
        """Yield every exit as it happens, including those `stop` caused."""
        ...

    async def close(self) -> None:
        """Kill what still runs and release the adapter's resources."""
        ...
