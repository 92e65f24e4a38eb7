"""Construction of the gateway's objects, their startup and their shutdown.

Called by `__main__`. `http_app` defines the endpoints, `channel_registry` the running channels.
"""

import asyncio
import socket
from datetime import timedelta

import structlog

from choir_common.bus.client import Bus
from choir_common.clients.control import NatsControlClient
from choir_common.errors import StartupError
from choir_common.http.listen import bind_tcp_address, bind_unix, serve, stop_on_signals
from choir_common.ids import new_id
from choir_common.telemetry import Redactor
from choir_gateway import VERSION
from choir_gateway.api.http_app import ControlTrust, make_bus_endpoints, make_gateway_app
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel
from choir_gateway.channels.console.spool import FileSpool, SpoolLimits
from choir_gateway.control_files import ControlFileClient
from choir_gateway.settings import GatewaySecrets, GatewaySettings

MB = 1_000_000
log = structlog.get_logger("choir.gateway")


async def run_gateway(
    settings: GatewaySettings, secrets: GatewaySecrets, redactor: Redactor
) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises StartupError if the settings do not fit or a socket cannot be bound.
    """
    stop = stop_on_signals()
    sockets = _bind(settings, secrets)
    bus = Bus(settings.nats_url, secrets.nats_token, "choir-gateway")
    control = NatsControlClient(bus, new_id("gw"))
    files = ControlFileClient(settings.control, secrets.operator_token)
    hub = ConsoleChannel(control, _spool(settings), files)
    roster = ChannelRegistry(control, files, hub, secrets.secrets)
    # Behind the Unix socket alone, file permissions are sufficient, as on control's own socket.
    token = secrets.operator_token if settings.gateway_http else None
    trust = ControlTrust(secrets.operator_token, redactor.add_secrets, files.trust)
    app = make_gateway_app(bus, roster, hub, token, trust)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(app, sockets, stop))
        work = tasks.create_task(_work(bus, roster))
        await stop.wait()
        # Open streams would keep the server from stopping.
        hub.close()
        work.cancel()


async def _work(bus: Bus, roster: ChannelRegistry) -> None:
    async with bus, bus.serve("choir-gateway", VERSION, *make_bus_endpoints(roster)):
        log.info("gateway ready")
        await roster.run(bus)


def _spool(settings: GatewaySettings) -> FileSpool:
    caps = SpoolLimits(
        settings.console_file_mb * MB,
        settings.console_files_mb * MB,
        timedelta(days=settings.console_files_days),
    )
    return FileSpool(settings.spool, caps)


def _bind(settings: GatewaySettings, secrets: GatewaySecrets) -> list[socket.socket]:
    """Return the listening sockets: TCP if configured; the Unix socket unless TCP replaces it."""
    sockets: list[socket.socket] = []
    if settings.gateway_http is not None:
        if not secrets.operator_token:
            raise StartupError(
                "CHOIR_GATEWAY_HTTP makes the gateway listen on TCP, and its secrets hold no "
                "operator_token to check callers with. Add it, or unset CHOIR_GATEWAY_HTTP."
            )
        sockets.append(bind_tcp_address(settings.gateway_http, "CHOIR_GATEWAY_HTTP"))
    if not sockets or settings.gateway_socket is not None:
        sockets.append(bind_unix(settings.socket))
    return sockets
