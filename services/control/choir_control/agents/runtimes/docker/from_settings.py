"""Factory of the Docker runtime from control's settings. Imported by `choose` only when needed."""

from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.docker.container import MIB, ContainerLimits
from choir_control.agents.runtimes.docker.runtime import DockerRuntime
from choir_control.settings import ControlSettings


def make_docker_runtime(settings: ControlSettings, logs: AgentLogs) -> DockerRuntime:
    """Return a runtime that has not contacted the engine yet."""
    return DockerRuntime(
        home=settings.home,
        image=settings.agent_image,
        network=settings.agent_network,
        log_level=settings.log_level,
        limits=ContainerLimits(
            memory_bytes=settings.agent_memory_mb * MIB,
            cpus=settings.agent_cpus,
            pids=settings.agent_pids,
        ),
        logs=logs,
        otlp_endpoint=settings.otlp_endpoint or "",
    )
