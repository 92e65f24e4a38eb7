"""HTTP and SSE routes of the console: messages, files, buttons, and a stream of events.

Users reach them through control's endpoint, which forwards the requests.
"""

import mimetypes
import os
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from choir_common.errors import InvalidRequest
from choir_common.http.console_messages import read_console_message, read_console_request
from choir_common.http.middleware import LargeBodyRoute
from choir_common.http.responses import event_stream_response
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.attachments import ANY_MIME, Attachment, AttachmentKind
from choir_common.wire.console import ConsolePressRequest
from choir_common.wire.messages import (
    ButtonPress,
    ButtonResponse,
    InboundAccepted,
    OutboundHistory,
)
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel

MAX_ID = 2**62
MAX_NAME = 255
UPLOAD_TIMEOUT_S = 600.0
# The files that a browser can display or records; all others are documents.
KIND_BY_MIME: dict[str, AttachmentKind] = {
    "image/jpeg": "photo",
    "image/png": "photo",
    "image/webp": "photo",
    "audio/ogg": "voice",
    "audio/webm": "voice",
    "video/mp4": "video",
}


def make_console_router(registry: ChannelRegistry, console: ConsoleChannel) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/v1/dms/{dm}", tags=["console"])

    @router.post("/messages", status_code=202)
    async def say(dm: str, request: Request) -> InboundAccepted:
        """Store a message; it is durable when this returns."""
        registry.require_console_dm(dm)
        message = read_console_message(await request.body(), request.headers)
        return await console.accept(registry.gateway_of(dm), dm, message)

    @router.get("/messages")
    async def history(
        dm: str,
        after: Annotated[int, Query(ge=0, le=MAX_ID)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> OutboundHistory:
        """Return the messages to the user after an id, oldest first."""
        registry.require_console_dm(dm)
        return await console.history(dm, after, limit)

    @router.get("/events")
    async def follow(
        dm: str, last_event_id: Annotated[str | None, Header()] = None
    ) -> StreamingResponse:
        """Stream messages to the user; `Last-Event-ID` resumes, 0 starts at the beginning."""
        registry.require_console_dm(dm)
        return event_stream_response(console.follow(dm, _read_id(last_event_id)))

    @router.post("/press")
    async def press(dm: str, request: Request) -> ButtonResponse:
        """Press a button below a message; the decision is durable when this returns."""
        registry.require_console_dm(dm)
        body = read_console_request(ConsolePressRequest, await request.body(), '{"data": "..."}')
        user = registry.user_of(dm)
        return await console.press(
            ButtonPress(
                gateway=registry.gateway_of(dm),
                user_id=user,
                chat_id=user,
                data=body.data,
                message_id=body.message_id,
                callback_id=f"{dm}:{body.idempotency_key or os.urandom(12).hex()}"[:100],
            )
        )

    _add_files(router, registry, console)
    return router


def _add_files(router: APIRouter, registry: ChannelRegistry, console: ConsoleChannel) -> None:
    @router.put("/files", status_code=201)
    async def put_file(
        dm: str, request: Request, name: Annotated[str, Query(min_length=1, max_length=MAX_NAME)]
    ) -> Attachment:
        """Upload the body as a file; a message with its `ref` sends it to the agent."""
        registry.require_console_dm(dm)
        mime = request.headers.get("content-type", "")[:127] or _mime_of(name)
        attachment = Attachment(name=name, kind=_kind_of(mime), mime=mime, ref="unnamed")
        return await console.spool.store_upload(dm, attachment, request.stream())

    @router.get("/files/{token}")
    async def get_upload(dm: str, token: str) -> StreamingResponse:
        """Return a file that the user uploaded, while it is stored here."""
        registry.require_console_dm(dm)
        ref = f"{dm}/{token}"
        attachment = await console.spool.read_description(dm, ref)
        return _download(attachment.name, await console.spool.open_upload(ref))

    @router.get("/messages/{outbox_id}/files/{ref}")
    async def get_file(dm: str, outbox_id: int, ref: str) -> StreamingResponse:
        """Return a file of a message, as the agent sent it."""
        registry.require_console_dm(dm)
        if not 0 < outbox_id <= MAX_ID:
            raise InvalidRequest(_("There is no such message."))
        attachment, pieces = await console.open_sent_file(dm, outbox_id, ref)
        return _download(attachment.name, pieces)


def _download(name: str, pieces: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response that a browser saves as a file, and never shows as a page."""
    return StreamingResponse(
        pieces,
        media_type=ANY_MIME,
        headers={
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
            "X-Content-Type-Options": "nosniff",
        },
    )


def large_body_routes(most: int) -> tuple[LargeBodyRoute, ...]:
    """Return the requests with a larger body limit: uploads of files with up to `most` bytes."""
    return (LargeBodyRoute("PUT", r"/v1/dms/[^/]+/files", most, UPLOAD_TIMEOUT_S),)


def _mime_of(name: str) -> str:
    return mimetypes.guess_type(name)[0] or ANY_MIME


def _kind_of(mime: str) -> AttachmentKind:
    """Return the kind of a file by its type, which can have parameters such as the codec."""
    return KIND_BY_MIME.get(mime.partition(";")[0].strip().lower(), "document")


def _read_id(header: str | None) -> int | None:
    if header is None:
        return None
    if not header.isascii() or not header.isdigit() or int(header) > MAX_ID:
        raise InvalidRequest(
            _("Last-Event-ID must be the id of an event, not {header!r}.").format(
                header=header[:40]
            )
        )
    return int(header)
