"""Composition root of the browser service: starts its objects in order, stops them in reverse."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import structlog

from choir_browser.blobs.store import BlobStore
from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_browser.contexts.engine_manager import ChromiumLauncher, EngineManager
from choir_browser.egress.proxy import EgressProxy
from choir_browser.egress.traffic_limits import TrafficLimits
from choir_browser.endpoints import VERSION, ChromiumState, bus_endpoints, make_http_app
from choir_browser.limits.kill_policy import KillReasons, ResourceLimits
from choir_browser.limits.load_slots import LoadSlots
from choir_browser.limits.watchdog import ProcessWatchdog
from choir_browser.pages.engine import LaunchOptions
from choir_browser.settings import BrowserSecrets, BrowserSettings
from choir_common.bus.client import Bus, Endpoint
from choir_common.clock import Clock, SystemClock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.http.listen import bind_tcp_address, bind_unix, serve, stop_on_signals
from choir_common.redactor import Redactor

log = structlog.get_logger("choir.browser")

IDLE_CHECKS_PER_PERIOD = 4


@contextlib.asynccontextmanager
async def open_contexts(
    settings: BrowserSettings, dialer: Dialer, clock: Clock
) -> AsyncIterator[tuple[BrowserContexts, EngineManager]]:
    """Start the proxy and create the contexts' registry behind it; Chromium itself starts later."""
    blobs = BlobStore(clock, settings.browser_max_file_mb * 1_000_000)
    rates = TrafficLimits(settings.browser_agent_traffic_mb * 1_000_000)
    limits = ResourceLimits(
        agent_memory=settings.browser_agent_memory_mb * 1_000_000,
        memory=settings.browser_memory_mb * 1_000_000,
        work_s=settings.browser_page_work_s,
    )
    async with EgressProxy(dialer, rates, clock) as proxy:
        load_slots, kill_reasons = LoadSlots(settings.browser_max_pages), KillReasons(clock)
        tabs = settings.browser_max_tabs
        launch = LaunchOptions(
            settings.chromium, settings.sandbox, proxy.url, tabs, blobs, kill_reasons
        )
        engine_manager = EngineManager(ChromiumLauncher(), launch, clock)
        contexts = BrowserContexts(
            engine_manager=engine_manager,
            proxy=proxy,
            dialer=dialer,
            blobs=blobs,
            load_slots=load_slots,
            kill_reasons=kill_reasons,
        )
        watchdog = asyncio.create_task(
            ProcessWatchdog(
                limits, page_processes=contexts, kill_reasons=kill_reasons, clock=clock
            ).run()
        )
        try:
            yield contexts, engine_manager
        finally:
            watchdog.cancel()
            await asyncio.gather(watchdog, return_exceptions=True)
            # Stop Chromium before the proxy closes and the blobs are deleted.
            await engine_manager.stop()
            blobs.close()


async def run_browser(
    settings: BrowserSettings, secrets: BrowserSecrets, _redactor: Redactor
) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises StartupError if the settings are invalid or a socket cannot be bound.
    """
    stop = stop_on_signals()
    if not settings.sandbox:
        log.warning(
            "chromium runs without its own sandbox",
            advice="Run Choir as a user other than root; in a container, the container is the sandbox.",
        )
    if settings.missing_walls:
        log.warning("the browser service lacks walls around it", missing=settings.missing_walls)
    dialer = Dialer(parse_allowlist(settings.browser_allow, "CHOIR_BROWSER_ALLOW"))
    sockets = [_bind(settings)]
    bus = Bus(settings.nats_url, secrets.nats_key, "browser")
    async with open_contexts(settings, dialer, SystemClock()) as (contexts, engine_manager):
        chromium = ChromiumState(
            engine_manager, settings.chromium, settings.sandbox, settings.missing_walls
        )
        app = make_http_app(bus, contexts.blobs, chromium)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(app, sockets, stop))
            endpoints = bus_endpoints(contexts, chromium)
            work = tasks.create_task(_work(bus, contexts, endpoints, settings))
            await stop.wait()
            work.cancel()


async def _work(
    bus: Bus, contexts: BrowserContexts, endpoints: Sequence[Endpoint], settings: BrowserSettings
) -> None:
    """Serve bus requests until cancelled; periodically stop an idle Chromium."""
    idle = timedelta(seconds=settings.browser_idle_s)
    async with bus, bus.serve("choir-browser", VERSION, *endpoints):
        log.info("browser worker ready")
        while True:
            await asyncio.sleep(settings.browser_idle_s / IDLE_CHECKS_PER_PERIOD)
            try:
                await contexts.stop_if_idle(idle)
            except Exception:  # outermost loop: a failure to stop Chromium must not end the service
                log.exception("stopping an idle browser failed")


def _bind(settings: BrowserSettings) -> socket.socket:
    if settings.browser_http is None:
        return bind_unix(settings.health_socket)
    return bind_tcp_address(settings.browser_http, "CHOIR_BROWSER_HTTP")
