"""Selection of the agent runtime from the settings."""

import os
from typing import assert_never

from choir_common.errors import StartupError
from choir_common.http.client import TLS_SCHEME
from choir_common.i18n import _
from choir_common.redactor import Redactor
from choir_control.agents.runtimes.agent_logs import AgentLogs
from choir_control.agents.runtimes.containers import DEFAULT_CPUS, MIB, ContainerLimits
from choir_control.agents.runtimes.port import AgentRuntime, ProxyAddress
from choir_control.agents.runtimes.process.boundary import ProcessLimits, default_cpus
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_control.settings import ControlSecrets, ControlSettings


def make_runtime(
    settings: ControlSettings, secrets: ControlSecrets, redactor: Redactor
) -> AgentRuntime:
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
        case "kubernetes":
            return make_kubernetes_runtime(settings, secrets, logs)
        case _:
            assert_never(settings.runtime)


def process_limits(settings: ControlSettings) -> ProcessLimits:
    """Return the limits of agents that run as processes."""
    return ProcessLimits(agent_cpus=settings.agent_cpus or default_cpus())


def make_docker_runtime(settings: ControlSettings, logs: AgentLogs) -> AgentRuntime:
    """Return a runtime that has not contacted the engine yet."""
    # The Docker SDK costs 15 MB and 0.2 s, which the embedded stack does not need.
    from choir_control.agents.runtimes.docker.runtime import (  # noqa: PLC0415 - see above
        DockerRuntime,
    )

    return DockerRuntime(
        home=settings.home,
        image=settings.agent_image,
        network=settings.agent_network,
        log_level=settings.log_level,
        limits=container_limits(settings),
        logs=logs,
        otlp_endpoint=settings.otlp_endpoint or "",
    )


def container_limits(settings: ControlSettings) -> ContainerLimits:
    """Return the limits of agents that run in containers or pods."""
    return ContainerLimits(
        memory_bytes=settings.agent_memory_mb * MIB,
        cpus=settings.agent_cpus or DEFAULT_CPUS,
        pids=settings.agent_pids,
    )


def make_kubernetes_runtime(
    settings: ControlSettings, secrets: ControlSecrets, logs: AgentLogs
) -> AgentRuntime:
    """Return a runtime that has not contacted the API server yet.

    Raises StartupError when the settings contradict it, or its client library is not installed.
    """
    if settings.control_plane != "http":
        raise StartupError(
            _(
                "CHOIR_RUNTIME is kubernetes, and CHOIR_CONTROL_PLANE is not http: a pod cannot open a "
                "socket of control's pod. Set CHOIR_CONTROL_PLANE=http and CHOIR_CONTROL_ENDPOINT to the "
                "address of control's Service, such as https://control:9400."
            )
        )
    try:
        # The client library costs 65 MB and 0.7 s.
        from choir_control.agents.runtimes.kubernetes.api import (  # noqa: PLC0415 - see above
            PodApi,
        )
        from choir_control.agents.runtimes.kubernetes.runtime import (  # noqa: PLC0415 - see above
            KubernetesRuntime,
        )
    except ModuleNotFoundError as error:
        raise StartupError(
            _(
                "CHOIR_RUNTIME is kubernetes, and the Python package {error} is not installed. Install "
                "choir-control[kubernetes]."
            ).format(error=error.name)
        ) from error

    return KubernetesRuntime(
        home=settings.home,
        image=settings.agent_image,
        claim=settings.kubernetes_claim,
        claim_path=settings.kubernetes_claim_path,
        log_level=settings.log_level,
        limits=container_limits(settings),
        api=PodApi(settings.kubernetes_namespace),
        logs=logs,
        otlp_endpoint=settings.otlp_endpoint or "",
        proxy=proxy_of_pods(settings, secrets),
    )


def proxy_of_pods(settings: ControlSettings, secrets: ControlSecrets) -> ProxyAddress | None:
    """Return where pods reach the egress proxy; None if they connect without it.

    Raises StartupError when the settings lack a part of it.
    """
    if not settings.egress_address:
        return None
    parts = (secrets.egress_token, secrets.egress_certificate)
    if not settings.egress_address.startswith(TLS_SCHEME) or not all(parts):
        raise StartupError(
            _(
                "CHOIR_RUNTIME is kubernetes, and CHOIR_EGRESS_ENDPOINT does not lead to a TCP port with "
                "TLS: pods cannot open the proxy's sockets. Set it to https://HOST:PORT, with "
                "`egress_token` and `egress_certificate` in control's secrets, or to `off`."
            )
        )
    if not settings.egress_agents:
        raise StartupError(
            _(
                "CHOIR_RUNTIME is kubernetes, and CHOIR_EGRESS_ENDPOINT is set without "
                "CHOIR_EGRESS_AGENTS: set it to host:port of the egress service's port for agents, such "
                "as egress:9405."
            )
        )
    return ProxyAddress(settings.egress_agents, secrets.egress_certificate or "")
