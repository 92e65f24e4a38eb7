"""`/v1/bots`: bots that are not configured yet, for control. Each request contains the bot's token."""

from typing import TypeVar

from fastapi import APIRouter, Request
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.http.routers import ServiceRouter
from choir_common.redactor import Redactor
from choir_common.wire.telegram import BotAccess, BotIdentity, BotMessages, ReadBotMessages
from choir_gateway.channels.telegram.factory import TelegramInspectorFactory

M = TypeVar("M", bound=BotAccess)


def bot_routes(inspectors: TelegramInspectorFactory, redactor: Redactor) -> APIRouter:
    """Return the router; `make_gateway_app` requires the gateway token."""
    router = ServiceRouter(prefix="/v1/bots", tags=["channels"])

    async def parse(request: Request, model: type[M]) -> M:
        """Return the body; no log line can contain its token afterwards."""
        try:
            access = model.model_validate_json(await request.body())
        except ValidationError as error:
            # Name only the fields: the framework's error message would quote the token.
            places = {".".join(map(str, fault["loc"][:1])) for fault in error.errors()}
            raise InvalidRequest(f"Invalid request: {', '.join(sorted(places))}.") from None
        redactor.add_secrets([access.token])
        return access

    @router.post("/identify")
    async def identify(request: Request) -> BotIdentity:
        """Return the bot of a token."""
        return await inspectors.make().identify(await parse(request, BotAccess))

    @router.post("/messages")
    async def read_messages(request: Request) -> BotMessages:
        """Wait for messages to a bot."""
        return await inspectors.make().read_messages(await parse(request, ReadBotMessages))

    @router.post("/remove-webhook")
    async def remove_webhook(request: Request) -> BotIdentity:
        """Delete the webhook of a bot."""
        return await inspectors.make().remove_webhook(await parse(request, BotAccess))

    return router
