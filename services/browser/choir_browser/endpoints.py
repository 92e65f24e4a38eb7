"""Endpoints of the browser service: three requests on the bus; blobs and health checks over HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse

from choir_browser.blobs.store import BlobStore
from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_browser.contexts.engine_manager import EngineManager
from choir_browser.pages.chromium_program import NO_PLAYWRIGHT, find_chromium
from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.errors import Unavailable
from choir_common.extras import has_extra, installed_version
from choir_common.http.service_app import make_service_app
from choir_common.i18n import _
from choir_common.wire.browser import (
    NO_SANDBOX,
    NOT_CONFINED,
    BrowseRequest,
    BrowseResponse,
    CloseContext,
)
from choir_common.wire.messages import Empty
from choir_common.wire.operator import ComponentStatus

VERSION = installed_version()


@dataclass(frozen=True, slots=True)
class ChromiumState:
    """What the service reports about Chromium."""

    engine_manager: EngineManager
    executable: Path | None
    sandbox: bool
    missing_walls: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return whether it runs, or the reason why it cannot, and which protections are missing."""
        if not has_extra("browser"):
            return NO_PLAYWRIGHT
        warning = "" if self.sandbox else f"; {NO_SANDBOX}"
        if self.missing_walls:
            warning += f"; {NOT_CONFINED}: {'; '.join(self.missing_walls)}"
        if self.engine_manager.running is not None:
            return f"running{warning}"
        try:
            program = find_chromium(self.executable, None)
        except Unavailable as error:
            return error.message
        idle = _("idle; starts on the first page ({program})").format(program=program)
        return f"{idle}{warning}"


def bus_endpoints(contexts: BrowserContexts, chromium: ChromiumState) -> Sequence[Endpoint]:
    """Return the service's bus endpoints."""

    async def close_context(request: CloseContext) -> Empty:
        await contexts.close(request.agent_id)
        return Empty()

    async def browse(request: BrowseRequest) -> BrowseResponse:
        return await contexts.browse(request)

    async def status(_: Empty) -> ComponentStatus:
        return ComponentStatus(name="browser", ok=True, detail=chromium.describe())

    return (
        Endpoint(subjects.browser_status(), Empty, status),
        Endpoint(subjects.close_context(), CloseContext, close_context),
        Endpoint(subjects.browse_page(), BrowseRequest, browse),
    )


def make_http_app(bus: Bus, blobs: BlobStore, chromium: ChromiumState) -> FastAPI:
    """Build the HTTP app with /livez, /readyz and the blob route."""
    readiness = BrowserReadiness(bus, chromium)
    app = make_service_app("Choir browser", VERSION, readiness)

    @app.get("/v1/blobs/{blob_id}", response_class=StreamingResponse)
    async def fetch_blob(blob_id: str) -> Response:
        """Return a file, once. The id is a secret that only control gets, so no further authorization
        is needed."""
        pieces = blobs.fetch(blob_id)
        return StreamingResponse(pieces, media_type="application/octet-stream")

    return app


class BrowserReadiness:
    """The readiness check of the browser service."""

    def __init__(self, bus: Bus, chromium: ChromiumState) -> None:
        self._bus = bus
        self._chromium = chromium

    async def check(self) -> Sequence[ComponentStatus]:
        """Return the state of the bus and of Chromium."""
        nats = self._bus.failure_reason
        return (
            ComponentStatus(name="nats", ok=not nats, detail=nats),
            # A missing Chromium is no failure of this service: browse requests report it.
            ComponentStatus(name="chromium", ok=True, detail=self._chromium.describe()),
        )
