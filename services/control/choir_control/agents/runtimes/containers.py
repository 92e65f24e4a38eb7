"""What agents in containers and in pods have in common: paths, limits, environment and boot line. Pure."""

from dataclasses import dataclass

from choir_common.wire.rpc import AgentStartParameters
from choir_control.agents.runtimes.port import LaunchSpec, ProxyAddress

CONTAINER_WORKSPACE = "/workspace"
CONTAINER_CHOIR_DIR = "/choir"
CONTAINER_SOCKET_DIR = "/run/choir"
MIB = 1 << 20
DEFAULT_CPUS = 1.0


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """Resource limits of one agent with all its tools."""

    memory_bytes: int = 1024 * MIB
    """The agent needs 40 MB, a compiler or a test run a few hundred; there is no swap on top."""
    cpus: float = DEFAULT_CPUS
    """CPU cores; less than two leave capacity for control on a small host."""
    pids: int = 512
    """Processes and threads: stops a fork bomb, not a parallel build."""
    tmp_bytes: int = 256 * MIB
    """Size of /tmp, which is in memory."""


def container_environment(log_level: str, otlp_endpoint: str) -> dict[str, str]:
    """Return the environment of an agent; it contains no secrets."""
    tracing = {"OTEL_EXPORTER_OTLP_ENDPOINT": otlp_endpoint} if otlp_endpoint else {}
    return {
        "HOME": CONTAINER_WORKSPACE,
        "TMPDIR": "/tmp",  # noqa: S108 - of the container
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CHOIR_LOG_LEVEL": log_level,
        **tracing,
    }


def boot_line(spec: LaunchSpec, proxy: ProxyAddress | None = None) -> bytes:
    """Return the agent's boot line, with paths as they are inside the container.

    `proxy` is where the egress proxy is reached that has no socket in the container.
    """
    address = spec.control_address(CONTAINER_SOCKET_DIR)
    boot = AgentStartParameters(
        agent_id=spec.agent_id,
        session_id=spec.session_id,
        epoch=spec.epoch,
        lease_token=spec.lease_token,
        endpoint=address.endpoint,
        ca_pem=address.ca_pem,
        workspace=CONTAINER_WORKSPACE,
        choir_dir=CONTAINER_CHOIR_DIR,
        image_version=spec.image_version,
        egress_socket="" if proxy else spec.egress_socket(CONTAINER_SOCKET_DIR),
        egress_key=spec.egress_key,
        egress_address=proxy.address if proxy else "",
        egress_certificate=proxy.certificate if proxy else "",
    )
    return boot.model_dump_json().encode() + b"\n"
