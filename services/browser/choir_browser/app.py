"""Composition root of the browser service: build its objects, start them in order, stop them in reverse.

Called by `__main__`. The endpoints are in endpoints.py.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import structlog

from choir_browser.blobs.store import BlobStore
from choir_browser.contexts import chromium_loader
from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_browser.contexts.engine_manager import EngineManager
from choir_browser.egress.allowlist import parse_allowlist
from choir_browser.egress.dialer import Dialer
from choir_browser.egress.proxy import EgressProxy
from choir_browser.egress.traffic_limits import TrafficLimits
from choir_browser.endpoints import VERSION, bus_endpoints, make_http_app
from choir_browser.limits.kill_policy import ResourceLimits
from choir_browser.limits.kill_reasons import KillReasons
from choir_browser.limits.load_slots import LoadSlots
from choir_browser.limits.watchdog import ProcessWatchdog
from choir_browser.pages.engine import LaunchOptions
from choir_browser.settings import BrowserSecrets, BrowserSettings
from choir_common.bus.client import Bus, Endpoint
from choir_common.clock import Clock, SystemClock
from choir_common.http.listen import bind_tcp_address, bind_unix, serve, stop_on_signals
from choir_common.redactor import Redactor

log = structlog.get_logger("choir.browser")

IDLE_CHECKS_PER_PERIOD = 4


@contextlib.asynccontextmanager
async def open_contexts(
    settings: BrowserSettings, dialler: Dialer, clock: Clock
) -> AsyncIterator[tuple[BrowserContexts, EngineManager]]:
    """Start the proxy and create the contexts' registry behind it; Chromium itself starts later."""
    shelf = BlobStore(clock, settings.browser_max_file_mb * 1_000_000)
    rates = TrafficLimits(settings.browser_agent_traffic_mb * 1_000_000)
    bounds = ResourceLimits(
        agent_memory=settings.browser_agent_memory_mb * 1_000_000,
        memory=settings.browser_memory_mb * 1_000_000,
        work_s=settings.browser_page_work_s,
    )
    async with EgressProxy(dialler, rates, clock) as proxy:
        turns, endings = LoadSlots(settings.browser_max_pages), KillReasons(clock)
        tabs = settings.browser_max_tabs
        launch = LaunchOptions(settings.chromium, settings.sandbox, proxy.url, tabs, shelf, endings)
        keeper = EngineManager(chromium_loader.start_chromium, launch, clock)
        rooms = BrowserContexts(keeper, proxy, dialler, shelf, turns, endings)
        watching = asyncio.create_task(
            ProcessWatchdog(bounds, rooms.page_processes, endings, clock).run()
        )
        try:
            yield rooms, keeper
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            # Stop Chromium before the proxy closes and the blobs are deleted.
            await keeper.stop()
            shelf.close()


async def run_browser(
    settings: BrowserSettings, secrets: BrowserSecrets, _redactor: Redactor
) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises StartupError if the settings are invalid or a socket cannot be bound.
    """
    stop = stop_on_signals()
    dialler = Dialer(parse_allowlist(settings.browser_allow))
    sockets = [_bind(settings)]
    bus = Bus(settings.nats_url, secrets.nats_token, "choir-browser")
    async with open_contexts(settings, dialler, SystemClock()) as (rooms, keeper):
        app = make_http_app(bus, rooms.blobs, keeper, settings.chromium)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(app, sockets, stop))
            doors = bus_endpoints(rooms, keeper, settings.chromium)
            work = tasks.create_task(_work(bus, rooms, doors, settings))
            await stop.wait()
            work.cancel()


async def _work(
    bus: Bus, rooms: BrowserContexts, doors: Sequence[Endpoint], settings: BrowserSettings
) -> None:
    """Serve bus requests until cancelled; periodically stop an idle Chromium."""
    idle = timedelta(seconds=settings.browser_idle_s)
    async with bus, bus.serve("choir-browser", VERSION, *doors):
        log.info("browser worker ready")
        while True:
            await asyncio.sleep(settings.browser_idle_s / IDLE_CHECKS_PER_PERIOD)
            try:
                await rooms.stop_if_idle(idle)
            except Exception:  # outermost loop: a failure to stop Chromium must not end the service
                log.exception("could not end an idle browser")


def _bind(settings: BrowserSettings) -> socket.socket:
    if settings.browser_http is None:
        return bind_unix(settings.health_socket)
    return bind_tcp_address(settings.browser_http, "CHOIR_BROWSER_HTTP")
