"""The console, `/v1/dms/{dm}`: messages are stored here, and all else is forwarded to the gateway.

Users need one endpoint only; the console channel itself runs in the gateway. A message that names files is
forwarded, too, because the gateway has them.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

import httpx2
from fastapi import APIRouter, Path, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from choir_common.clock import SystemClock
from choir_common.errors import (
    ChoirError,
    DeadlineExceeded,
    OutcomeUnknown,
    RateLimited,
    Unavailable,
)
from choir_common.http.body import openapi_body
from choir_common.http.client import await_unless_hung
from choir_common.http.console_messages import read_console_message
from choir_common.http.middleware import LargeBodyRoute
from choir_common.http.response_parser import LANGUAGE_HEADER
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.tracing import trace_headers
from choir_common.wire.attachments import Attachment
from choir_common.wire.console import ConsoleMessageRequest, ConsolePressRequest
from choir_common.wire.messages import ButtonResponse, InboundAccepted, OutboundHistory
from choir_control.api.operator.authentication import ConversationAccess
from choir_control.api.operator.load_limiter import LoadLimiter
from choir_control.conversations.inbox.console import ConsoleInbox

MAX_STREAMS = 256
"""Limit of concurrent streams and files; the client's other connections are reserved for messages."""
RETRY_AFTER_S = 5.0
MAX_URLS = 1_000
FORWARDED_REQUEST_HEADERS = (
    "accept",
    "content-type",
    "last-event-id",
    "x-choir-request-id",
    "idempotency-key",
    LANGUAGE_HEADER.lower(),
)
FORWARDED_RESPONSE_HEADERS = (
    "content-type",
    "content-disposition",
    "x-content-type-options",
    "cache-control",
    "x-accel-buffering",
    "retry-after",
)
# The gateway limits the size of a file; this is only the bound for forwarding.
LARGE_BODIES = (LargeBodyRoute("PUT", r"/v1/dms/[^/]+/files", 2 * 2**30, 600.0),)

DmPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
TokenPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9]{1,64}$")]
RefPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9]{1,16}$")]

_LARGE = httpx2.Timeout(60.0, connect=5.0).as_dict()
# a quiet conversation may have no events for hours
_ENDLESS = httpx2.Timeout(5.0, read=None).as_dict()


@dataclass(frozen=True, slots=True)
class GatewayClients:
    """HTTP clients of the gateway."""

    console: httpx2.AsyncClient
    """For messages and streams, which are forwarded as fast as possible."""
    files: httpx2.AsyncClient
    """For files of any size, which are sent in chunks."""

    async def aclose(self) -> None:
        """Close the connections."""
        await self.console.aclose()
        await self.files.aclose()


def console_routes(gateway: GatewayClients, inbox: ConsoleInbox) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/dms", tags=["console"])
    forward = _GatewayProxy(gateway)
    load = LoadLimiter(SystemClock())

    @router.post(
        "/{dm}/messages",
        response_class=Response,
        status_code=HTTPStatus.ACCEPTED,
        responses={HTTPStatus.ACCEPTED.value: {"model": InboundAccepted}},
        openapi_extra=openapi_body(ConsoleMessageRequest),
    )
    async def send_message(dm: DmPath, request: Request) -> Response:
        """Send a message in a conversation; 503 when too many others are waiting."""
        with load.admit() as turn:
            message = read_console_message(await request.body(), request.headers)
            if message.files:
                answer = await forward.forward(request, f"/v1/dms/{dm}/messages")
            else:
                answer = _accepted(await inbox.accept(dm, message))
            turn.accepted = answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
        return answer

    @router.get(
        "/{dm}/messages",
        response_class=Response,
        responses={HTTPStatus.OK.value: {"model": OutboundHistory}},
    )
    async def list_messages(dm: DmPath, request: Request) -> Response:
        """List the messages that were sent to the user in a conversation."""
        return await forward.forward(request, f"/v1/dms/{dm}/messages")

    @router.get("/{dm}/events", response_class=StreamingResponse)
    async def follow_messages(dm: DmPath, request: Request) -> Response:
        """Stream a conversation as server-sent events; `Last-Event-ID` resumes."""
        return await forward.forward_events(request, f"/v1/dms/{dm}/events")

    @router.post(
        "/{dm}/press",
        response_class=Response,
        responses={HTTPStatus.OK.value: {"model": ButtonResponse}},
        openapi_extra=openapi_body(ConsolePressRequest),
    )
    async def press_button(dm: DmPath, request: Request) -> Response:
        """Press a button below a message of a conversation."""
        return await forward.forward(request, f"/v1/dms/{dm}/press")

    router.include_router(_file_routes(forward))
    return router


def _file_routes(forward: "_GatewayProxy") -> APIRouter:
    router = ServiceRouter()

    @router.put(
        "/{dm}/files",
        response_class=Response,
        status_code=HTTPStatus.CREATED,
        responses={HTTPStatus.CREATED.value: {"model": Attachment}},
    )
    async def put_file(dm: DmPath, request: Request) -> Response:
        """Upload a file for a message: the raw body, with its name in `?name=`."""
        access: ConversationAccess = request.state.access
        with access.admit_transfer():
            return await forward.forward_body(request, f"/v1/dms/{dm}/files")

    @router.get("/{dm}/files/{token}", response_class=StreamingResponse)
    async def get_upload(dm: DmPath, token: TokenPath, request: Request) -> Response:
        """Download a file that the user uploaded in a conversation."""
        return await forward.forward_file(request, f"/v1/dms/{dm}/files/{token}")

    @router.get("/{dm}/messages/{outbox_id}/files/{ref}", response_class=StreamingResponse)
    async def get_file(dm: DmPath, outbox_id: int, ref: RefPath, request: Request) -> Response:
        """Download a file that was sent to the user in a conversation."""
        return await forward.forward_file(request, f"/v1/dms/{dm}/messages/{outbox_id}/files/{ref}")

    return router


class _GatewayProxy:
    """Forwards requests to the gateway."""

    def __init__(self, gateway: GatewayClients) -> None:
        self._gateway = gateway.console
        self._files = gateway.files
        self._base = gateway.console.base_url
        self._own_headers = {**gateway.console.headers, "host": self._base.netloc.decode()}
        self._urls: dict[str, httpx2.URL] = {}
        """Parsed addresses by path: clients repeat them."""
        self._streams = 0

    async def forward(self, request: Request, path: str) -> Response:
        """Forward a request and return the gateway's complete response."""
        outgoing = self._request(request, path, await request.body())
        try:
            answer = await await_unless_hung(self._gateway, self._gateway.send(outgoing))
        except httpx2.HTTPError as error:
            raise _away(error) from error
        return Response(answer.content, answer.status_code, headers=_back(answer))

    async def forward_body(self, request: Request, path: str) -> Response:
        """Forward a large body in chunks; return the gateway's complete response."""
        outgoing = self._request(request, path, request.stream())
        outgoing.extensions = {**outgoing.extensions, "timeout": _LARGE}
        try:
            answer = await self._files.send(outgoing)
        except httpx2.HTTPError as error:
            raise _away(error) from error
        return Response(answer.content, answer.status_code, headers=_back(answer))

    async def forward_events(self, request: Request, path: str) -> Response:
        """Forward a request and return its events as a stream; raises RateLimited for too many streams."""
        access: ConversationAccess = request.state.access
        return await self._forward_stream(request, path, access.admit_stream())

    async def forward_file(self, request: Request, path: str) -> Response:
        """Forward a request and return its file as a stream; raises RateLimited for too many streams."""
        access: ConversationAccess = request.state.access
        return await self._forward_stream(request, path, access.admit_transfer())

    async def _forward_stream(
        self, request: Request, path: str, admission: AbstractContextManager[None]
    ) -> Response:
        if self._streams >= MAX_STREAMS:
            raise RateLimited(
                _(
                    "{max_streams} streams of conversations are open, the maximum; close one first."
                ).format(max_streams=MAX_STREAMS),
                retry_after_s=RETRY_AFTER_S,
            )
        outgoing = self._request(request, path, b"")
        outgoing.extensions = {**outgoing.extensions, "timeout": _ENDLESS}
        self._streams += 1
        with contextlib.ExitStack() as on_failure:
            # On success the response object closes the stream instead.
            on_failure.callback(self._end_stream)
            on_failure.enter_context(admission)
            try:
                answer = await await_unless_hung(
                    self._gateway, self._gateway.send(outgoing, stream=True)
                )
            except httpx2.HTTPError as error:
                raise _away(error) from error
            open_stream = on_failure.pop_all()
        return _StreamedResponse(answer, open_stream, request)

    def _end_stream(self) -> None:
        """Count a stream as closed."""
        self._streams -= 1

    def _request(
        self, request: Request, path: str, body: bytes | AsyncIterator[bytes]
    ) -> httpx2.Request:
        headers = {
            name: request.headers[name]
            for name in FORWARDED_REQUEST_HEADERS
            if name in request.headers
        }
        if not isinstance(body, bytes) and "content-length" in request.headers:
            # so that the gateway refuses a body that is too large before it is sent
            headers["content-length"] = request.headers["content-length"]
        # Letting the client merge URL and headers would cost as much as sending the request.
        return httpx2.Request(
            request.method,
            self._url(path, request.scope["query_string"]),
            headers={**self._own_headers, **headers, **trace_headers()},
            content=body,
            extensions={"timeout": self._gateway.timeout.as_dict()},
        )

    def _url(self, path: str, query: bytes) -> httpx2.URL:
        if path not in self._urls:
            if len(self._urls) >= MAX_URLS:
                self._urls.clear()
            self._urls[path] = self._base.copy_with(path=self._base.path.rstrip("/") + path)
        url = self._urls[path]
        return url.copy_with(query=query) if query else url


class _StreamedResponse(StreamingResponse):
    """The gateway's response as a stream; the connection to the gateway is closed when the stream ends."""

    def __init__(
        self, answer: httpx2.Response, open_stream: contextlib.ExitStack, request: Request
    ) -> None:
        super().__init__(_pieces(answer, request), answer.status_code, headers=_back(answer))
        self._answer = answer
        self._open_stream = open_stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. The client may disconnect before the first chunk, so the cleanup is here."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._open_stream.close()
            await self._answer.aclose()


async def _pieces(answer: httpx2.Response, request: Request) -> AsyncIterator[bytes]:
    access: ConversationAccess = request.state.access
    try:
        async for piece in answer.aiter_raw():
            if not access.may_use(request.path_params["dm"]):
                return  # a session that was revoked meanwhile
            yield piece
    except httpx2.HTTPError:
        # The gateway disconnected: the client sees the end of the stream and resumes by
        # Last-Event-ID.
        return


def _accepted(accepted: InboundAccepted) -> Response:
    return Response(accepted.model_dump_json(), HTTPStatus.ACCEPTED, media_type="application/json")


def _back(answer: httpx2.Response) -> dict[str, str]:
    return {
        name: answer.headers[name] for name in FORWARDED_RESPONSE_HEADERS if name in answer.headers
    }


def _away(error: httpx2.HTTPError) -> ChoirError:
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return Unavailable(
            _("The gateway is unavailable: it is starting. Nothing was accepted; try again."),
            retry_after_s=1.0,
        )
    if isinstance(error, httpx2.TimeoutException):
        return DeadlineExceeded(
            _(
                "The gateway is running but does not respond. It is restarted if that continues. A "
                "message may have been accepted; repeating it under the same idempotency key is safe."
            ),
            retry_after_s=30.0,
        )
    return OutcomeUnknown(
        _(
            "The connection to the gateway was lost; it may be restarting. A message may have been "
            "accepted; repeating it under the same idempotency key is safe."
        ),
        retry_after_s=1.0,
    )
