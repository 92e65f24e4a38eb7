"""Construction of the gateway's objects, their startup and their shutdown.

Called by `__main__`. `doors` defines the endpoints, `roster` the running channels.
"""

import asyncio
import socket
from datetime import timedelta

import structlog

from choir_common.bus.client import Bus
from choir_common.clients.control import BusControlInbox
from choir_common.errors import StartupError
from choir_common.http.listen import bind_tcp, bind_unix, serve
from choir_common.ids import new_id
from choir_common.telemetry import Redactor
from choir_gateway import VERSION
from choir_gateway.channels.console.hub import ConsoleHub
from choir_gateway.channels.console.spool import Caps, Spool
from choir_gateway.control_files import ControlFiles
from choir_gateway.doors import Trust, bus_endpoints, console_app
from choir_gateway.roster import Roster
from choir_gateway.settings import GatewaySecrets, GatewaySettings

MB = 1_000_000
log = structlog.get_logger("choir.gateway")


async def run(
    settings: GatewaySettings, secrets: GatewaySecrets, stop: asyncio.Event, redactor: Redactor
) -> None:
    """Serve until `stop` is set.

    Raises StartupError if the settings do not fit or a socket cannot be bound.
    """
    sockets = _bind(settings, secrets)
    bus = Bus(settings.nats_url, secrets.nats_token, "choir-gateway")
    control = BusControlInbox(bus, new_id("gw"))
    files = ControlFiles(settings.control, secrets.operator_token)
    hub = ConsoleHub(control, _spool(settings), files)
    roster = Roster(control, files, hub, secrets.secrets)
    # Behind the Unix socket alone, file permissions are sufficient, as on control's own socket.
    token = secrets.operator_token if settings.gateway_http else None
    trust = Trust(secrets.operator_token, redactor.learn, files.trust)
    app = console_app(bus, roster, hub, token, trust)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(app, sockets, stop))
        work = tasks.create_task(_work(bus, roster))
        await stop.wait()
        # Open streams would keep the server from stopping.
        hub.close()
        work.cancel()


async def _work(bus: Bus, roster: Roster) -> None:
    async with bus, bus.serve("choir-gateway", VERSION, *bus_endpoints(roster)):
        log.info("gateway ready")
        await roster.run(bus)


def _spool(settings: GatewaySettings) -> Spool:
    caps = Caps(
        settings.console_file_mb * MB,
        settings.console_files_mb * MB,
        timedelta(days=settings.console_files_days),
    )
    return Spool(settings.spool, caps)


def _bind(settings: GatewaySettings, secrets: GatewaySecrets) -> list[socket.socket]:
    """Return the listening sockets: TCP if configured; the Unix socket unless TCP replaces it."""
    sockets: list[socket.socket] = []
    if settings.gateway_http is not None:
        if not secrets.operator_token:
            raise StartupError(
                "CHOIR_GATEWAY_HTTP makes the gateway listen on TCP, and its secrets hold no "
                "operator_token to check callers with. Add it, or unset CHOIR_GATEWAY_HTTP."
            )
        host, _, port = settings.gateway_http.rpartition(":")
        sockets.append(bind_tcp(host.strip("[]"), int(port), "CHOIR_GATEWAY_HTTP"))
    if not sockets or settings.gateway_socket is not None:
        sockets.append(bind_unix(settings.socket))
    return sockets
