"""Long polling for updates; an update is confirmed only once control has stored it.

Run by `channel`; passes updates to `intake`.
"""

import asyncio

import structlog
from telegram import Bot
from telegram.error import Conflict, RetryAfter, TelegramError

from choir_gateway.channels.telegram.intake import FIRST_WAIT_S, LONGEST_WAIT_S, Intake
from choir_gateway.channels.telegram.pauses import explain, pause_of
from choir_gateway.channels.telegram.updates import WANTED

log = structlog.get_logger("choir.gateway.telegram")

POLL_S = 25
READ_S = POLL_S + 10


class Polling:
    """Receiver of one bot's updates by long polling."""

    def __init__(self, bot: Bot, gateway: str, intake: Intake) -> None:
        self._bot = bot
        self._gateway = gateway
        self._intake = intake
        self._offset: int | None = None
        self.trouble: str | None = "has not reached Telegram yet"

    async def run(self) -> None:
        """Receive updates until cancelled."""
        failures = 0
        while True:
            usual_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures, 8))
            try:
                await self._poll()
                failures = 0
                continue
            except RetryAfter as error:
                wait_s = pause_of(error)
            except TelegramError as error:
                wait_s = usual_s
                self.trouble = explain(error)
                log.warning("no updates", gateway=self._gateway, reason=self.trouble)
                await self._mend(error)
            except Exception:  # outermost loop of a bot: the other bots and the console continue
                wait_s = LONGEST_WAIT_S
                self.trouble = "An update could not be read; the log of the gateway says why."
                log.exception("poll failed", gateway=self._gateway, offset=self._offset)
            failures += 1
            await asyncio.sleep(wait_s)

    async def _poll(self) -> None:
        updates = await self._bot.get_updates(
            offset=self._offset,
            # After an error, poll without waiting: a recovery should be detected sooner than after
            # 25 s.
            timeout=0 if self.trouble else POLL_S,
            read_timeout=READ_S,
            allowed_updates=WANTED,
        )
        self.trouble = None
        for update in updates:
            await self._intake.take(self._intake.read(update))
            # Confirm only now, so that Telegram repeats an update that was not stored.
            self._offset = update.update_id + 1

    async def _mend(self, error: TelegramError) -> None:
        """Remove a webhook that was left behind: while there is one, Telegram refuses to be polled."""
        if not isinstance(error, Conflict) or "webhook" not in error.message:
            return
        try:
            await self._bot.delete_webhook(drop_pending_updates=False)
        except TelegramError as trouble:
            log.warning("webhook stays", gateway=self._gateway, reason=trouble.message)
