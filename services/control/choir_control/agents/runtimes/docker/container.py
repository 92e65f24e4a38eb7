"""Create request of an agent's container, from a fixed template. Pure.

The request is posted unchanged. Options that are not set here have the engine's default, which is
strict for seccomp and process namespaces.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_control.agents.runtimes.containers import (
    CONTAINER_CHOIR_DIR,
    CONTAINER_SOCKET_DIR,
    CONTAINER_WORKSPACE,
    MIB,
    ContainerLimits,
    container_environment,
)
from choir_control.agents.runtimes.port import LaunchSpec

MANAGED = "choir.managed"
HOME = "choir.home"
AGENT = "choir.agent"
SESSION = "choir.session"
EPOCH = "choir.epoch"
TRIAL_COMMAND = ("/opt/agent/bin/python", "-I", "-m", "choir_agent.tool_bench", "try")


@dataclass(frozen=True, slots=True)
class Installation:
    """Settings shared by all agents of one installation."""

    home: Path
    """Distinguishes this installation's containers from another's on the same engine."""
    image: str
    network: str
    """Network of agents without egress proxy; `bridge` is the engine's own."""
    uid: int
    gid: int
    """Control's own user: without capabilities even root cannot open another user's 0700 directory."""
    log_level: str
    limits: ContainerLimits
    otlp_endpoint: str = ""
    """OTLP endpoint for spans, as reachable from containers; empty disables tracing."""


def container_name(site: Installation, agent_id: str) -> str:
    """Return the fixed name of an agent's container; the engine refuses a second container with it."""
    return f"choir-{hashlib.sha256(str(site.home).encode()).hexdigest()[:8]}-{agent_id}"


def installation_labels(site: Installation) -> dict[str, str]:
    """Return the labels of every agent container of this installation."""
    return {MANAGED: "true", HOME: str(site.home)}


def container_create_request(site: Installation, spec: LaunchSpec) -> JsonObject:
    """Return the body of the engine's create request; it contains no secrets."""
    labels: JsonObject = {
        **installation_labels(site),
        AGENT: spec.agent_id,
        SESSION: spec.session_id,
        EPOCH: str(spec.epoch),
    }
    return {
        "Image": spec.docker_image or site.image,
        "User": f"{site.uid}:{site.gid}",
        "WorkingDir": CONTAINER_WORKSPACE,
        "Env": [
            f"{name}={value}"
            for name, value in container_environment(site.log_level, site.otlp_endpoint).items()
        ],
        "Labels": labels,
        # The boot line is written once; when control closes the stream, the agent reads end of file.
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "Healthcheck": {"Test": ["NONE"]},
        # a built image may set another signal, and its agent would not shut down in order
        "StopSignal": "SIGTERM",
        "HostConfig": _host_config(site, spec),
    }


def trial_create_request(site: Installation, spec: LaunchSpec) -> JsonObject:
    """Return the body for a trial of a tool: an agent's container with another program and newer files.

    The image is the agent's, so that its programs are there; /choir is the directory of the trial.
    """
    body = container_create_request(site, replace(spec, docker_image=""))
    image = spec.docker_image or site.image
    return {**body, "Image": image, "Entrypoint": [*TRIAL_COMMAND], "Cmd": []}


def trial_name(site: Installation, agent_id: str) -> str:
    """Return the name of a trial's container; no agent's id has a dot."""
    return f"{container_name(site, agent_id)}.trial"


def _host_config(site: Installation, spec: LaunchSpec) -> JsonObject:
    limits = site.limits
    return {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "Privileged": False,
        "ReadonlyRootfs": True,
        "Init": True,
        **_network(site, spec),
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": int(limits.cpus * 1_000_000_000),
        "PidsLimit": limits.pids,
        "OomScoreAdj": 500,
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": 4096, "Hard": 4096},
        ],
        "Tmpfs": {
            "/tmp": f"rw,noexec,nosuid,nodev,mode=1777,size={limits.tmp_bytes}",  # noqa: S108
            "/run": f"rw,noexec,nosuid,nodev,mode=755,size={8 * MIB}",
        },
        "Mounts": [
            _bind(spec.workspace, CONTAINER_WORKSPACE, read_only=False),
            # a built image has its own /choir
            *(
                []
                if spec.docker_image
                else [_bind(spec.choir_dir, CONTAINER_CHOIR_DIR, read_only=True)]
            ),
            # The directory, not the socket, because a new control process creates a new socket in it.
            _bind(spec.socket_dir, CONTAINER_SOCKET_DIR, read_only=True),
        ],
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}},
    }


def _network(site: Installation, spec: LaunchSpec) -> JsonObject:
    if spec.egress_key:
        return {"NetworkMode": "none"}  # the egress proxy is reached through its socket
    # for a model server on the host, such as Ollama; it is reachable by its address anyway
    return {"NetworkMode": site.network, "ExtraHosts": ["host.docker.internal:host-gateway"]}


def _bind(source: Path, target: str, *, read_only: bool) -> JsonValue:
    # A mount, not a bind string: the engine refuses a missing source instead of creating it.
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}
