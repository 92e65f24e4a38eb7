"""Selection of the agent runtime from the settings."""

import os
from typing import assert_never

from choir_common.redactor import Redactor
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.port import AgentRuntime
from choir_control.agents.runtimes.process.boundary import ProcessLimits, default_cpus
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_control.settings import ControlSettings


def make_runtime(settings: ControlSettings, redactor: Redactor) -> AgentRuntime:
    """Return the adapter without starting or contacting anything."""
    logs = AgentLogs(settings.home, redactor)
    match settings.runtime:
        case "process":
            # The whole environment, because locale and certificate variables are passed on to agents.
            return ProcessRuntime(
                settings.home, os.environ, logs=logs, limits=process_limits(settings)
            )
        case "docker":
            return make_docker_runtime(settings, logs)
        case _:
            assert_never(settings.runtime)


def process_limits(settings: ControlSettings) -> ProcessLimits:
    """Return the limits of agents that run as processes."""
    return ProcessLimits(agent_cpus=settings.agent_cpus or default_cpus())


def make_docker_runtime(settings: ControlSettings, logs: AgentLogs) -> AgentRuntime:
    """Return a runtime that has not contacted the engine yet."""
    # The Docker SDK costs 15 MB and 0.2 s, which the embedded stack does not need.
    from choir_control.agents.runtimes.docker.container import (  # noqa: PLC0415 - see above
        DEFAULT_CPUS,
        MIB,
        ContainerLimits,
    )
    from choir_control.agents.runtimes.docker.runtime import (  # noqa: PLC0415 - see above
        DockerRuntime,
    )

    return DockerRuntime(
        home=settings.home,
        image=settings.agent_image,
        network=settings.agent_network,
        log_level=settings.log_level,
        limits=ContainerLimits(
            memory_bytes=settings.agent_memory_mb * MIB,
            cpus=settings.agent_cpus or DEFAULT_CPUS,
            pids=settings.agent_pids,
        ),
        logs=logs,
        otlp_endpoint=settings.otlp_endpoint or "",
    )
