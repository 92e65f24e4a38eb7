"""The endpoints of the gateway: HTTP routes, deliveries over NATS, and health.

Users reach the console's routes through control's endpoint, which forwards them. Files from users are
streamed through the gateway, because their address at Telegram contains the bot's token.
"""

import contextlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from pydantic import ValidationError

from choir_common.bus import subjects
from choir_common.bus.client import Bus, Endpoint
from choir_common.errors import InvalidRequest, NotFound, Unauthorized
from choir_common.http.middleware import LargeBodyRoute
from choir_common.http.openapi import (
    GATEWAY_TOKEN,
    META_SIGNATURE,
    WEBHOOK_SECRET,
    WEBHOOK_SIGNATURE,
)
from choir_common.http.routers import ServiceRouter
from choir_common.http.service_app import make_service_app
from choir_common.i18n import _
from choir_common.redactor import Redactor
from choir_common.wire.config_api import BotTokens
from choir_common.wire.erasure import DmFilesErased, EraseDmFiles
from choir_common.wire.messages import DeliveryReceipt, OutboundMessage
from choir_common.wire.operator import ComponentStatus
from choir_gateway import VERSION
from choir_gateway.api.bots import bot_routes
from choir_gateway.api.console import large_body_routes, make_console_router
from choir_gateway.api.web import make_web_router
from choir_gateway.channel_registry import ChannelRegistry
from choir_gateway.channels.console.channel import ConsoleChannel
from choir_gateway.channels.telegram.factory import TelegramInspectorFactory
from choir_gateway.channels.webhook.payloads import UpdateAnswer
from choir_gateway.control_files import ControlFileClient
from choir_gateway.web.assets import WebAssets

# The limit of a message (100,000 characters) as UTF-8, with JSON around it.
MAX_BODY_BYTES = 512 * 1024
# A message with files, which are in base64. The signature is known to be valid only when all was read.
MAX_WEBHOOK_BYTES = 8_000_000
# Meta sends at most 3 MB.
MAX_WHATSAPP_BYTES = 3 * 1024 * 1024
WEBHOOK_TIMEOUT_S = 60.0
OCTETS = "application/octet-stream"


class TokenReceiver:
    """Receiver of the bots' tokens, and of the certificates by which control is verified."""

    def __init__(
        self, *, registry: ChannelRegistry, redactor: Redactor, control_files: ControlFileClient
    ) -> None:
        self.redactor = redactor
        self._registry = registry
        self._control_files = control_files

    def receive(self, tokens: BotTokens) -> None:
        """Pass the tokens to the redactor first, so that no log line can contain a new token."""
        self.redactor.add_secrets(tokens.tokens.values())
        self._control_files.trust(tokens.control_ca)
        self._registry.set_tokens(tokens)


def make_bus_endpoints(registry: ChannelRegistry, console: ConsoleChannel) -> Sequence[Endpoint]:
    """Return the gateway's NATS endpoints."""

    async def deliver(message: OutboundMessage) -> DeliveryReceipt:
        return await registry.deliver(message)

    async def erase(request: EraseDmFiles) -> DmFilesErased:
        # Channels store files of a DM in the console's spool.
        records = 0
        if request.user_id:
            records = await registry.erase_user(request.gateway, request.user_id)
        return DmFilesErased(files=await console.spool.erase_dm(request.dm), records=records)

    return (
        Endpoint(subjects.deliver_message(), OutboundMessage, deliver),
        Endpoint(subjects.erase_gateway_files(), EraseDmFiles, erase),
    )


def make_gateway_app(
    *,
    bus: Bus,
    registry: ChannelRegistry,
    console: ConsoleChannel,
    token_receiver: TokenReceiver,
    console_token: str | None,
    control_token: str | None,
) -> FastAPI:
    """Build the HTTP application.

    `console_token` is required from clients of the console, unless it is None; `control_token` from
    control, whose requests are refused if it is None.
    """
    app = make_service_app(
        "Choir gateway",
        VERSION,
        GatewayReadiness(bus, registry),
        max_body_bytes=MAX_BODY_BYTES,
        large_bodies=(
            *large_body_routes(console.spool.limits.file_bytes),
            LargeBodyRoute("POST", r"/webhook/[^/]+", MAX_WEBHOOK_BYTES, WEBHOOK_TIMEOUT_S),
            LargeBodyRoute("POST", r"/whatsapp/[^/]+", MAX_WHATSAPP_BYTES, WEBHOOK_TIMEOUT_S),
        ),
    )
    token_scheme = Depends(GATEWAY_TOKEN)
    for_control = [Depends(_admit_control(control_token)), token_scheme]
    app.include_router(
        make_console_router(registry, console),
        dependencies=[Depends(_admit(console_token)), token_scheme],
    )
    app.include_router(
        make_web_router(WebAssets()), dependencies=[Depends(_admit(console_token)), token_scheme]
    )
    app.include_router(_token_routes(token_receiver), dependencies=for_control)
    app.include_router(_file_routes(registry), dependencies=for_control)
    app.include_router(
        bot_routes(TelegramInspectorFactory(), token_receiver.redactor), dependencies=for_control
    )
    app.include_router(_webhook_routes(registry))
    return app


def _token_routes(receiver: TokenReceiver) -> APIRouter:
    router = ServiceRouter(prefix="/v1/channels", tags=["channels"])

    @router.put("/tokens", status_code=204)
    async def take_tokens(request: Request) -> None:
        """Accept the bots' tokens from control. Only this route does so; they never travel over NATS."""
        try:
            tokens = BotTokens.model_validate_json(await request.body())
        except ValidationError as error:
            # Name only the fields: the framework's error message would quote the tokens.
            places = {".".join(map(str, fault["loc"][:1])) for fault in error.errors()}
            raise InvalidRequest(
                _("Invalid bot tokens: {places}.").format(places=", ".join(sorted(places)))
            ) from None
        receiver.receive(tokens)

    return router


def _file_routes(registry: ChannelRegistry) -> APIRouter:
    """Return the file router for control; `make_gateway_app` requires the gateway token."""
    router = ServiceRouter(tags=["channels"])

    @router.get("/v1/files/{gateway}", response_class=StreamingResponse)
    async def get_file(
        gateway: str, ref: Annotated[str, Query(min_length=1, max_length=1_000)]
    ) -> StreamingResponse:
        """Return the bytes of a file that a user sent."""
        async with contextlib.AsyncExitStack() as stack:
            # Open the file before the response starts, so that a failure still becomes an error
            # response.
            pieces = await stack.enter_async_context(registry.open_file(gateway, ref))
            return StreamingResponse(_all(pieces, stack.pop_all()), media_type=OCTETS)

    return router


def _webhook_routes(registry: ChannelRegistry) -> APIRouter:
    """Return the router of the webhooks: the only one open to strangers, protected by secrets."""
    router = ServiceRouter(tags=["webhooks"])

    @router.post("/telegram/{gateway}", dependencies=[Depends(WEBHOOK_SECRET)])
    async def take_telegram_update(gateway: str, request: Request) -> Response:
        """Store an update. It is durable when this returns 200; otherwise Telegram repeats it."""
        await registry.store_update(gateway, await request.body(), request.headers)
        return Response()

    @router.get("/whatsapp/{gateway}", response_class=PlainTextResponse)
    async def verify_whatsapp_webhook(gateway: str, request: Request) -> PlainTextResponse:
        """Answer Meta's verification of the address, which `hub.verify_token` proves to be Meta's."""
        answer = registry.answer_challenge(gateway, request.query_params)
        return PlainTextResponse(answer, headers={"X-Content-Type-Options": "nosniff"})

    @router.post("/whatsapp/{gateway}", dependencies=[Depends(META_SIGNATURE)])
    async def take_whatsapp_update(gateway: str, request: Request) -> Response:
        """Store an update. It is durable when this returns 200; otherwise Meta repeats it."""
        await registry.store_update(gateway, await request.body(), request.headers)
        return Response()

    @router.post("/webhook/{gateway}", dependencies=[Depends(WEBHOOK_SIGNATURE)])
    async def take_program_update(gateway: str, request: Request) -> UpdateAnswer:
        """Store an update of a program. It is durable when this returns 200; otherwise repeat it."""
        answer = await registry.store_update(gateway, await request.body(), request.headers)
        if not isinstance(answer, UpdateAnswer):
            raise NotFound(
                _("The gateway {gateway!r} is not of type webhook.").format(gateway=gateway[:64])
            )
        return answer

    return router


async def _all(
    pieces: AsyncIterator[bytes], stack: contextlib.AsyncExitStack
) -> AsyncIterator[bytes]:
    async with stack:
        async for piece in pieces:
            yield piece


def _admit(token: str | None) -> Callable[[Request], Awaitable[None]]:
    async def check(request: Request) -> None:
        if token is None:
            return
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(bearer.encode(), token.encode()):
            raise Unauthorized(_("The gateway token is needed (Authorization: Bearer ...)."))

    return check


def _admit_control(token: str | None) -> Callable[[Request], Awaitable[None]]:
    """Require the gateway token, on the Unix socket too.

    A caller that could replace a bot's token would receive the messages of its users.
    """
    if token is not None:
        return _admit(token)

    async def refuse(_request: Request) -> None:
        raise Unauthorized(
            _("This gateway has no gateway token, so it cannot authenticate control.")
        )

    return refuse


class GatewayReadiness:
    """The readiness check of the gateway."""

    def __init__(self, bus: Bus, registry: ChannelRegistry) -> None:
        self._bus = bus
        self._registry = registry

    async def check(self) -> Sequence[ComponentStatus]:
        """Return the state of the bus and of each channel."""
        nats = self._bus.failure_reason
        if self._registry.is_standby and self._bus.connected:
            nats = ""  # a standby has no subscriptions
        return (ComponentStatus(name="nats", ok=not nats, detail=nats), *self._registry.state())
