"""Updates by webhook: Telegram sends them to a route of the gateway.

Telegram repeats an update until the response is 200, which means that control has stored it.
"""

import asyncio
import hmac
import json

import structlog
from telegram import Bot, Update
from telegram.error import BadRequest, RetryAfter, TelegramError

from choir_common.backoff import Backoff
from choir_common.errors import InvalidRequest, Unauthorized, Unavailable
from choir_gateway.channels.telegram.api_call import describe_error, retry_after_s
from choir_gateway.channels.telegram.update_handler import (
    FIRST_WAIT_S,
    MAX_WAIT_S,
    UpdateContent,
    UpdateHandler,
)
from choir_gateway.channels.telegram.update_parser import ALLOWED_UPDATES

log = structlog.get_logger("choir.gateway.telegram")

TOKEN_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - a name, not a value

# The errors that the library raises for JSON of another shape; it does not check types, depths or
# dates.
NOT_AN_UPDATE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(RecursionError, OverflowError, OSError),
)
# Telegram waits a minute. If control is unavailable for longer than this, Telegram's repetition
# retries.
STORE_TIMEOUT_S = 20.0
# Another program with the token may set another webhook, and Telegram reports failures only on
# request.
CHECK_INTERVAL_S = 60.0


class WebhookReceiver:
    """Receiver of one bot's updates by webhook."""

    def __init__(
        self, bot: Bot, gateway: str, *, url: str, secret: str, handler: UpdateHandler
    ) -> None:
        self._bot = bot
        self._gateway = gateway
        self._url = url
        self._secret = secret
        self._handler = handler
        # One update at a time: concurrent ones would change the order of a conversation.
        self._lock = asyncio.Lock()
        self.error: str | None = "has not registered its webhook with Telegram yet"

    async def run(self) -> None:
        """Set the webhook and check regularly that it is still set, until cancelled."""
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                await self._set()
                backoff.reset()
                wait_s = CHECK_INTERVAL_S
            except RetryAfter as error:
                wait_s = retry_after_s(error)
            except BadRequest as error:
                wait_s = MAX_WAIT_S
                self._set_trouble(f"Telegram refuses the webhook: {error.message}")
            except TelegramError as error:
                wait_s = backoff.pause_s()
                self._set_trouble(describe_error(error))
            except Exception:  # outermost loop of a bot: the other bots and the console continue
                wait_s = MAX_WAIT_S
                log.exception("webhook not set", gateway=self._gateway)
            await asyncio.sleep(wait_s)

    async def store_update(self, body: bytes, secret: str) -> None:
        """Store an update that Telegram sent.

        Raises Unauthorized for a wrong secret, InvalidRequest for an invalid update, Unavailable.
        """
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            raise Unauthorized("The webhook's secret does not match.")
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S), self._lock:
                await self._handler.prepare()
                await self._handler.handle(self._read(body))
        except TelegramError as error:
            raise Unavailable(describe_error(error)) from None
        except TimeoutError:
            raise Unavailable("Control did not store it in time.") from None

    def _read(self, body: bytes) -> UpdateContent | None:
        try:
            return self._handler.parse(Update.de_json(json.loads(body), self._bot))
        except NOT_AN_UPDATE as error:
            raise InvalidRequest("The body is not a Telegram update.") from error

    async def _set(self) -> None:
        webhook = await self._bot.get_webhook_info()
        if self.error or webhook.url != self._url:
            await self._bot.set_webhook(
                self._url,
                secret_token=self._secret,
                allowed_updates=ALLOWED_UPDATES,
                # one connection keeps the updates in order
                max_connections=1,
                drop_pending_updates=False,
            )
        behind = webhook.pending_update_count and webhook.last_error_message
        self.error = f"Telegram cannot deliver updates: {behind}" if behind else None

    def _set_trouble(self, trouble: str) -> None:
        self.error = trouble
        log.warning("cannot register the webhook", gateway=self._gateway, error=trouble)
