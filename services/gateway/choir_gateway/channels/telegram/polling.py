"""Fetch updates, and confirm them only once control has stored what they say.

Run by channel.py; each message goes to control's inbox, which knows repetitions by their update id.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from telegram import Bot, Update
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError

from choir_common.clients.control import ControlInbox
from choir_common.errors import BadInput, ChoirError, NotFound
from choir_common.wire.messages import Accepted, InboundMessage
from choir_gateway.channels.port import Contacts
from choir_gateway.channels.telegram.pauses import pause_of
from choir_gateway.channels.telegram.updates import parse_update

log = structlog.get_logger("choir.gateway.telegram")

POLL_S = 25
READ_S = POLL_S + 10
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 10.0

OnNote = Callable[[InboundMessage, str], Awaitable[None]]


class Polling:
    """The long poll of one bot."""

    def __init__(
        self, bot: Bot, gateway: str, control: ControlInbox, contacts: Contacts, on_note: OnNote
    ) -> None:
        self._bot = bot
        self._gateway = gateway
        self._control = control
        self._contacts = contacts
        self._on_note = on_note
        self._offset: int | None = None
        self.trouble: str | None = "has not reached Telegram yet"

    async def run(self) -> None:
        """Take in updates until cancelled."""
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
                self.trouble = _explain(error)
                log.warning("no updates", gateway=self._gateway, reason=self.trouble)
                await self._mend(error)
            except Exception:  # the outermost loop of a bot: the others, and the console, go on
                wait_s = LONGEST_WAIT_S
                self.trouble = "An update could not be read; the log of the gateway says why."
                log.exception("poll failed", gateway=self._gateway, offset=self._offset)
            failures += 1
            await asyncio.sleep(wait_s)

    async def _poll(self) -> None:
        updates = await self._bot.get_updates(
            offset=self._offset,
            # what may be broken is asked without waiting: it must not take 25 s to be known to work
            timeout=0 if self.trouble else POLL_S,
            read_timeout=READ_S,
            allowed_updates=[Update.MESSAGE],
        )
        self.trouble = None
        for update in updates:
            await self._take(update)

    async def _mend(self, error: TelegramError) -> None:
        """Remove a webhook that somebody left: while it stands Telegram answers no poll."""
        if not isinstance(error, Conflict) or "webhook" not in error.message:
            return
        try:
            await self._bot.delete_webhook(drop_pending_updates=False)
        except TelegramError as trouble:
            log.warning("webhook stays", gateway=self._gateway, reason=trouble.message)

    async def _take(self, update: Update) -> None:
        """Store an update's message; the offset moves on only then."""
        message = parse_update(update, self._gateway, self._contacts)
        if message is not None:
            accepted = await self._accept(message)
            if accepted is not None and accepted.note and not accepted.duplicate:
                await self._on_note(message, accepted.note)
        self._offset = update.update_id + 1

    async def _accept(self, message: InboundMessage) -> Accepted | None:
        failures = 0
        while True:
            try:
                return await self._control.accept(message)
            except (NotFound, BadInput) as error:
                log.warning("message refused", gateway=self._gateway, reason=error.message)
                return None
            except ChoirError as error:
                log.info("message waits", gateway=self._gateway, reason=error.message)
            failures += 1
            await asyncio.sleep(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures, 8)))


def _explain(error: TelegramError) -> str:
    if isinstance(error, InvalidToken):
        return "Telegram refuses the bot's token; check it in secrets.json."
    if isinstance(error, Conflict):
        return f"Telegram serves somebody else with this bot's token: {error.message}"
    return f"Telegram cannot be reached ({type(error).__name__})."
