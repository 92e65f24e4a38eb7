"""Client of the gateway's routes for bots that are not configured yet. Used by control."""

from typing import Protocol, TypeVar

import httpx2
from pydantic import ValidationError

from choir_common.errors import Unavailable
from choir_common.http.response_parser import read_problem
from choir_common.i18n import _
from choir_common.wire.model import WireModel
from choir_common.wire.telegram import BotAccess, BotIdentity, BotMessages, ReadBotMessages

IDENTIFY_PATH = "/v1/bots/identify"
MESSAGES_PATH = "/v1/bots/messages"
WEBHOOK_PATH = "/v1/bots/remove-webhook"
# The gateway's own calls to Telegram take less.
TIMEOUT_S = 25.0

M = TypeVar("M", bound=WireModel)


class BotClient(Protocol):
    """Access to bots by their tokens. All methods raise the errors of `BotInspector` of the gateway."""

    async def identify(self, access: BotAccess) -> BotIdentity: ...

    async def read_messages(self, request: ReadBotMessages) -> BotMessages: ...

    async def remove_webhook(self, access: BotAccess) -> BotIdentity: ...


class HttpBotClient:
    """The gateway's routes over HTTP; `client` must have its address and the gateway token."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def identify(self, access: BotAccess) -> BotIdentity:
        """Return the bot of a token."""
        return await self._post(IDENTIFY_PATH, access, BotIdentity)

    async def read_messages(self, request: ReadBotMessages) -> BotMessages:
        """Wait for messages to a bot."""
        return await self._post(MESSAGES_PATH, request, BotMessages, request.wait_s)

    async def remove_webhook(self, access: BotAccess) -> BotIdentity:
        """Let Telegram keep a bot's updates until they are polled."""
        return await self._post(WEBHOOK_PATH, access, BotIdentity)

    async def _post(self, path: str, body: WireModel, model: type[M], wait_s: float = 0) -> M:
        try:
            response = await self._client.post(
                path,
                content=body.model_dump_json(),
                headers={"Content-Type": "application/json"},
                timeout=TIMEOUT_S + wait_s,
            )
        except httpx2.HTTPError as error:
            raise Unavailable(
                _("The gateway does not answer ({kind}). See `choirctl status`.").format(
                    kind=type(error).__name__
                )
            ) from error
        if response.is_error:
            raise read_problem(
                response.status_code, response.content, response.headers.get("retry-after")
            )
        try:
            return model.model_validate_json(response.content)
        except ValidationError as error:
            raise Unavailable(_("The gateway has another version than control.")) from error
