"""`/v1/hooks` and `/v1/triggers`: requests of programs, and views of them, of watched folders and of mail.

A request of a program is authenticated by its signature.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Request

from choir_common.errors import Unavailable
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.middleware import LargeBodyRoute
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.operator import Page
from choir_common.wire.triggers import (
    DeliveryView,
    HookAccepted,
    HookTest,
    HookTestResult,
    HookView,
    TriggerView,
)
from choir_control.conversations.triggers.hooks import HookService
from choir_control.conversations.triggers.overview import TriggerOverview

MAX_BODY = 1 << 20
"""Bytes, for every name: a hook's own limit is applied after its signature, so that it reveals nothing."""
BODY_TIMEOUT_S = 10.0
HOOK_BODIES = LargeBodyRoute("POST", r"/v1/hooks/[^/]+", MAX_BODY, BODY_TIMEOUT_S)
MAX_BODIES = 16 << 20
"""Bytes of all bodies that are being received: nobody has proved anything yet."""
RETRY_S = 5.0
LAST = 2**63 - 1
Cursor = Annotated[int, Query(ge=1, le=LAST)]
Limit = Annotated[int, Query(ge=1, le=200)]


class BodyBuffer:
    """Bodies of requests that are not authenticated yet, up to a number of bytes together."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used = 0

    @contextlib.asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Hold a body during the block. Raises Unavailable if the bodies together are too large."""
        body = bytearray()
        try:
            async for chunk in request.stream():
                self._used += len(chunk)
                body += chunk
                if self._used > self._max_bytes:
                    raise Unavailable(_("Too many requests at a time."), retry_after_s=RETRY_S)
            yield bytes(body)
        finally:
            self._used -= len(body)


def incoming_hook_routes(hooks: HookService) -> APIRouter:
    """Return the router for programs; each request proves by its signature where it comes from."""
    router = ServiceRouter(prefix="/hooks", tags=["hooks"])
    bodies = BodyBuffer(MAX_BODIES)

    @router.post("/{name}", status_code=202)
    async def receive_hook(name: str, request: Request) -> HookAccepted:
        """Store a request for an agent, once.

        401 for an unknown name or a wrong signature, 413 and 429 above the hook's limits.
        """
        async with bodies.read(request) as body:
            return await hooks.receive(name, request.headers, body)

    return router


def hook_routes(hooks: HookService) -> APIRouter:
    """Return the router of hooks for operators."""
    router = ServiceRouter(prefix="/hooks", tags=["hooks"])

    @router.get("")
    async def list_hooks() -> Page[HookView]:
        """List the configured hooks by name."""
        return Page(items=await hooks.list_all())

    @router.get("/{name}/deliveries")
    async def list_hook_deliveries(
        name: str, cursor: Cursor = LAST, limit: Limit = 50
    ) -> Page[DeliveryView]:
        """List what arrived through a hook, the newest first."""
        return _page(await hooks.list_deliveries(name, before=cursor, limit=limit + 1), limit)

    @router.post("/{name}/test", openapi_extra=openapi_body(HookTest))
    async def test_hook(name: str, request: Request) -> HookTestResult:
        """Show what the agent would read of a body; with `send`, let it read that."""
        return await hooks.test(name, await parse_request_body(request, HookTest))

    return router


def trigger_routes(triggers: TriggerOverview) -> APIRouter:
    """Return the router of watched folders and mail for operators."""
    router = ServiceRouter(prefix="/triggers", tags=["hooks"])

    @router.get("")
    async def list_triggers() -> Page[TriggerView]:
        """List the watched folders and mail triggers by name."""
        return Page(items=await triggers.list_all())

    @router.get("/{name}/deliveries")
    async def list_trigger_deliveries(
        name: str, cursor: Cursor = LAST, limit: Limit = 50
    ) -> Page[DeliveryView]:
        """List the files or mails that were given to an agent, the newest first."""
        return _page(await triggers.list_deliveries(name, before=cursor, limit=limit + 1), limit)

    return router


def _page(views: list[DeliveryView], limit: int) -> Page[DeliveryView]:
    """Return a page of views that have one more if there is a next page."""
    following = str(views[limit - 1].seq) if len(views) > limit else None
    return Page(items=views[:limit], next=following)
