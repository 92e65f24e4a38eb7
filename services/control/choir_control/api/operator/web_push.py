"""`/v1/web/session/push`: notifications of the browser that asks, and which of its pages are in view."""

from http import HTTPStatus

from fastapi import APIRouter, Request

from choir_common.errors import InvalidRequest
from choir_common.http.body import openapi_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.web import PagePresence, PushState, PushSubscriptionRequest
from choir_control.api.operator.authentication import ConversationAccess
from choir_control.web.push.presence import PresenceTracker
from choir_control.web.push.service import PushService
from choir_control.web.store import WebSession


def push_routes(service: PushService, presence: PresenceTracker) -> APIRouter:
    """Return the router of a browser's own notifications."""
    router = ServiceRouter(prefix="/web/session", tags=["web"])

    @router.get("/push")
    async def show_push(request: Request) -> PushState:
        """Show whether this browser gets notifications, and the key that it subscribes with."""
        session = _session_of(request)
        return PushState(
            public_key=(await service.key()).public,
            subscribed=await service.is_subscribed(session.web_session_id),
        )

    @router.put(
        "/push",
        status_code=HTTPStatus.NO_CONTENT,
        openapi_extra=openapi_body(PushSubscriptionRequest),
    )
    async def subscribe(request: Request) -> None:
        """Send notifications to this browser by its push service, in place of what it had."""
        session = _session_of(request)
        body = await parse_request_body(request, PushSubscriptionRequest)
        await service.subscribe(session.web_session_id, body.endpoint, body.p256dh, body.auth)

    @router.delete("/push", status_code=HTTPStatus.NO_CONTENT)
    async def unsubscribe(request: Request) -> None:
        """Send no more notifications to this browser."""
        await service.unsubscribe(_session_of(request).web_session_id)

    @router.put(
        "/presence", status_code=HTTPStatus.NO_CONTENT, openapi_extra=openapi_body(PagePresence)
    )
    async def report_presence(request: Request) -> None:
        """Report that a page is in view, for 90 seconds, or no longer."""
        session = _session_of(request)
        body = await parse_request_body(request, PagePresence)
        presence.report(session, body.page, visible=body.visible)

    return router


def _session_of(request: Request) -> WebSession:
    access: ConversationAccess = request.state.access
    if access.caller.web_session is None:
        raise InvalidRequest(_("Only a browser that signed in has notifications."))
    return access.caller.web_session
