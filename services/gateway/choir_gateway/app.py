"""Construction of the gateway's objects, their startup and their shutdown."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from datetime import timedelta

import structlog

from choir_common.bus.client import Bus, Endpoint
from choir_common.clients.control import NatsControlClient
from choir_common.errors import ChoirError, StartupError
from choir_common.http.listen import bind_tcp_address, bind_unix, serve, stop_on_signals
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.telemetry import Redactor
from choir_gateway import VERSION
from choir_gateway.api.http_app import TokenReceiver, make_bus_endpoints, make_gateway_app
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel
from choir_gateway.channels.factories import make_channel_factories
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.spool import FileSpool, SpoolLimits
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
    bus = Bus(settings.nats_url, secrets.nats_key, "gateway")
    address = str(settings.gateway_ip or "")
    control = NatsControlClient(bus, new_id("gw"), address)
    files = ControlFileClient(settings.control, secrets.gateway_token)
    spool = _spool(settings)
    console = ConsoleChannel(control, spool, files)
    conversations = ConversationDirectory()
    registry = ChannelRegistry(
        control=control,
        conversations=conversations,
        factories=make_channel_factories(
            # beside the console's files, which are on a volume in containers
            ChannelServices(control, files, conversations, settings.spool.parent),
            console=console,
            spool=spool,
        ),
        secrets=secrets.secrets,
    )
    endpoints = ServedEndpoints(bus, make_bus_endpoints(registry, console), console)
    app = make_gateway_app(
        bus=bus,
        registry=registry,
        console=console,
        token_receiver=TokenReceiver(registry=registry, redactor=redactor, control_files=files),
        # Behind the Unix socket alone, file permissions are sufficient, as on control's own socket.
        console_token=secrets.gateway_token if settings.gateway_http else None,
        control_token=secrets.gateway_token,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(app, sockets, stop))
        work = tasks.create_task(_work(bus, registry, endpoints, control if address else None))
        await stop.wait()
        # What is being delivered ends here, and not in the next gateway for a second time.
        await endpoints.close()
        await registry.finish_deliveries()
        # Open streams would keep the server from stopping.
        console.close()
        work.cancel()


class ServedEndpoints:
    """The gateway's endpoints on the bus, which are open while this process works."""

    def __init__(self, bus: Bus, endpoints: Sequence[Endpoint], console: ConsoleChannel) -> None:
        self._bus = bus
        self._endpoints = endpoints
        self._console = console
        self._open = contextlib.AsyncExitStack()
        self._is_open = False

    async def open(self) -> None:
        """Receive deliveries; does nothing if they are received."""
        if not self._is_open:
            self._is_open = True
            served = self._bus.serve("choir-gateway", VERSION, *self._endpoints)
            await self._open.enter_async_context(served)
            log.info("gateway ready")

    async def close(self) -> None:
        """Receive no further deliveries, and end the streams of the console: they are served elsewhere."""
        self._is_open = False
        self._console.end_streams()
        await self._open.aclose()


async def _work(
    bus: Bus,
    registry: ChannelRegistry,
    endpoints: ServedEndpoints,
    leased: NatsControlClient | None,
) -> None:
    """Run the channels until cancelled; then end the lease, if `leased` has one."""
    async with bus:
        try:
            await registry.run(bus, endpoints)
        finally:
            await endpoints.close()
            if leased is not None:
                with contextlib.suppress(ChoirError):
                    await leased.leave()


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
        if not secrets.gateway_token:
            raise StartupError(
                _(
                    "CHOIR_GATEWAY_HTTP makes the gateway listen on TCP, but its secrets contain no "
                    "gateway_token to authenticate callers. Add it, or unset CHOIR_GATEWAY_HTTP."
                )
            )
        sockets.append(bind_tcp_address(settings.gateway_http, "CHOIR_GATEWAY_HTTP"))
    if not sockets or settings.gateway_socket is not None:
        sockets.append(bind_unix(settings.socket))
    return sockets
