"""Composition root of the egress service."""

import asyncio

import structlog

from choir_common.clock import SystemClock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import SystemResolver
from choir_common.errors import StartupError
from choir_common.http.listen import bind_tcp_address, bind_unix, serve, stop_on_signals
from choir_common.i18n import _
from choir_common.metrics import Metrics
from choir_common.redactor import Redactor
from choir_egress.agent_port import AgentPort, server_tls
from choir_egress.agent_table import AgentTable
from choir_egress.endpoints import make_control_app, make_health_app
from choir_egress.settings import EgressSecrets, EgressSettings
from choir_egress.traffic import TrafficLog

log = structlog.get_logger("choir.egress")

SERVICE = "choir-egress"


async def run_egress(settings: EgressSettings, secrets: EgressSecrets, redactor: Redactor) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises StartupError if the settings are invalid or a socket cannot be bound.
    """
    stop = stop_on_signals()
    metrics = Metrics(SERVICE)
    table = AgentTable(
        settings,
        exceptions=parse_allowlist(settings.egress_allow, "CHOIR_EGRESS_ALLOW"),
        resolver=SystemResolver(),
        traffic=TrafficLog(metrics),
        redactor=redactor,
        clock=SystemClock(),
    )
    http = (
        [bind_tcp_address(settings.egress_http, "CHOIR_EGRESS_HTTP")]
        if settings.egress_http
        else []
    )
    async with asyncio.TaskGroup() as tasks:
        if settings.egress_agents:
            if not http:
                raise StartupError(
                    _(
                        "CHOIR_EGRESS_AGENTS is set, and CHOIR_EGRESS_HTTP is not: control could not "
                        "tell this service which agents run. Set it to host:port, such as 0.0.0.0:9404."
                    )
                )
            tls = server_tls(secrets)
            port = await AgentPort(table).open(settings.egress_agents, tls)
            app = make_control_app(table, metrics, secrets.token)
            tasks.create_task(serve(app, http, stop, tls))
        else:
            port = None
            control = [bind_unix(settings.control_socket)]
            tasks.create_task(serve(make_control_app(table, metrics), control, stop))
            if http:
                tasks.create_task(serve(make_health_app(metrics), http, stop))
        log.info("egress ready")
        await stop.wait()
        if port is not None:
            port.close()
        await table.close()
