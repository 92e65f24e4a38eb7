"""Long polling for updates; an update is confirmed only once control has stored it."""

import asyncio

import structlog
from telegram import Bot
from telegram.error import Conflict, RetryAfter, TelegramError

from choir_common.backoff import Backoff
from choir_gateway.channels.telegram.api_call import describe_error, retry_after_s
from choir_gateway.channels.telegram.update_handler import FIRST_WAIT_S, MAX_WAIT_S, UpdateHandler
from choir_gateway.channels.telegram.update_parser import ALLOWED_UPDATES

log = structlog.get_logger("choir.gateway.telegram")

POLL_S = 25
READ_S = POLL_S + 10


class UpdatePoller:
    """Receiver of one bot's updates by long polling."""

    def __init__(self, bot: Bot, gateway: str, handler: UpdateHandler) -> None:
        self._bot = bot
        self._gateway = gateway
        self._handler = handler
        self._offset: int | None = None
        self.error: str | None = "has not reached Telegram yet"

    async def run(self) -> None:
        """Receive updates until cancelled."""
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                await self._poll()
                backoff.reset()
                continue
            except RetryAfter as error:
                wait_s = retry_after_s(error)
            except TelegramError as error:
                wait_s = backoff.pause_s()
                self.error = describe_error(error)
                log.warning(
                    "cannot fetch updates; retrying", gateway=self._gateway, error=self.error
                )
                await self._remove_webhook(error)
            except Exception:  # outermost loop of a bot: the other bots and the console continue
                wait_s = MAX_WAIT_S
                self.error = "An update could not be parsed; see the gateway's log."
                log.exception("poll failed", gateway=self._gateway, offset=self._offset)
            await asyncio.sleep(wait_s)

    async def _poll(self) -> None:
        updates = await self._bot.get_updates(
            offset=self._offset,
            # After an error, poll without waiting: a recovery should be detected sooner than after
            # 25 s.
            timeout=0 if self.error else POLL_S,
            read_timeout=READ_S,
            allowed_updates=ALLOWED_UPDATES,
        )
        if updates:
            await self._handler.prepare()
        self.error = None
        for update in updates:
            await self._handler.handle(self._handler.parse(update))
            # Confirm only now, so that Telegram repeats an update that was not stored.
            self._offset = update.update_id + 1

    async def _remove_webhook(self, error: TelegramError) -> None:
        """Remove a webhook that was left behind: while there is one, Telegram refuses to be polled."""
        if not isinstance(error, Conflict) or "webhook" not in error.message:
            return
        try:
            await self._bot.delete_webhook(drop_pending_updates=False)
        except TelegramError as trouble:
            log.warning("cannot delete the webhook", gateway=self._gateway, error=trouble.message)
