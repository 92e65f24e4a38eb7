"""`/v1/telegram/connections`: connect a Telegram bot with an agent and with the person who sends a code."""

from fastapi import APIRouter, Request
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.http.body import openapi_body
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.operator import Page
from choir_common.wire.telegram import ConnectTelegram, TelegramConnection
from choir_common.wire.validation_messages import error_messages
from choir_control.conversations.telegram.service import TelegramConnector

NOT_A_BOT = _(
    "token: this is no token of a Telegram bot. @BotFather prints it as 123456789:AAH..., "
    "the whole of one line."
)


def telegram_routes(connector: TelegramConnector) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/telegram/connections", tags=["telegram"])

    @router.post("", status_code=201, openapi_extra=openapi_body(ConnectTelegram))
    async def connect_telegram(request: Request) -> TelegramConnection:
        """Check a bot and wait ten minutes for its code; nothing is changed before it arrives."""
        try:
            body = ConnectTelegram.model_validate_json(await request.body())
        except ValidationError as error:
            if any(fault["loc"] == ("token",) for fault in error.errors(include_input=False)):
                raise InvalidRequest(NOT_A_BOT) from None
            faults = "; ".join(error_messages(error, "body"))
            raise InvalidRequest(
                _("The body is invalid: {faults}.").format(faults=faults)
            ) from None
        return await connector.begin(body)

    @router.get("")
    async def list_connections() -> Page[TelegramConnection]:
        """List the attempts since the start of choird, newest first."""
        return Page(items=connector.list())

    @router.get("/{connection_id}")
    async def show_connection(connection_id: str) -> TelegramConnection:
        """Show whether the code has arrived, and what was connected."""
        return connector.get(connection_id)

    @router.delete("/{connection_id}")
    async def cancel_connection(connection_id: str) -> TelegramConnection:
        """Stop waiting for the code; 409 once it has arrived."""
        return connector.cancel(connection_id)

    return router
