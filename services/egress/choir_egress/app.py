"""Composition root of the egress service."""

import asyncio

import structlog

from choir_common.clock import SystemClock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import SystemResolver
from choir_common.http.listen import bind_tcp_address, bind_unix, serve, stop_on_signals
from choir_common.metrics import Metrics
from choir_common.redactor import Redactor
from choir_egress.agent_table import AgentTable
from choir_egress.endpoints import make_control_app, make_health_app
from choir_egress.settings import EgressSecrets, EgressSettings
from choir_egress.traffic import TrafficLog

log = structlog.get_logger("choir.egress")

SERVICE = "choir-egress"


async def run_egress(settings: EgressSettings, _secrets: EgressSecrets, redactor: Redactor) -> None:
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
    control = [bind_unix(settings.control_socket)]
    health = (
        [bind_tcp_address(settings.egress_http, "CHOIR_EGRESS_HTTP")]
        if settings.egress_http
        else []
    )
    log.info("egress ready")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(make_control_app(table, metrics), control, stop))
        if health:
            tasks.create_task(serve(make_health_app(metrics), health, stop))
        await stop.wait()
        await table.close()
