"""Send words in as many messages as they need; never drop the tail, never repeat in silence.

Called by channel.py. What of a message was surely sent is remembered until it is whole, so a delivery
that is tried again goes on where it stopped.
"""

import asyncio
from collections import OrderedDict

import structlog
from telegram import Bot
from telegram.error import (
    BadRequest,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.messages import OutboundMessage, Receipt
from choir_gateway.channels.telegram.chunks import LIMIT, split_text
from choir_gateway.channels.telegram.pauses import pause_of

log = structlog.get_logger("choir.gateway.telegram")

REPEATED = "(possibly repeated) "
# below the outbox's own deadline for a delivery, so that it hears of a rate limit in words
PATIENCE_S = 45.0
REMEMBERED = 1000
# python-telegram-bot wraps httpx's errors; these mean that nothing left this machine
NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")


class Sending:
    """Outgoing words of one bot."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._sent: OrderedDict[int, int] = OrderedDict()

    async def deliver(self, message: OutboundMessage, user_id: str) -> Receipt:
        """Send all parts of a message in order.

        Raises Unavailable when the next part was surely not sent, OutcomeUnknown when it may have been.
        """
        if not user_id.isdigit():
            detail = f"{user_id!r} is no Telegram user id; correct the DM {message.dm!r}."
            return Receipt(outbox_id=message.outbox_id, status="undeliverable", detail=detail)
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        parts = split_text(message.text, LIMIT - len(REPEATED))
        done = self._sent.get(message.outbox_id, 0)
        for number in range(done, len(parts)):
            doubtful = message.maybe_repeated and number == done
            text = REPEATED + parts[number] if doubtful else parts[number]
            refusal = await self._send(user_id, text, deadline)
            if refusal is not None:
                return Receipt(outbox_id=message.outbox_id, status="undeliverable", detail=refusal)
            self._remember(message.outbox_id, number + 1)
        self._sent.pop(message.outbox_id, None)
        return Receipt(outbox_id=message.outbox_id, status="delivered")

    async def notify(self, user_id: str, text: str) -> None:
        """Tell a user something about the channel itself, once and without promise."""
        try:
            await self._send(user_id, text, asyncio.get_running_loop().time())
        except Unavailable as error:
            log.info("note not sent", reason=error.message)

    async def _send(self, user_id: str, text: str, deadline: float) -> str | None:
        """Send one part; return why Telegram refuses it for good, if it does."""
        while True:
            try:
                await self._bot.send_message(chat_id=int(user_id), text=text)
            except RetryAfter as error:
                wait_s = pause_of(error)
                if asyncio.get_running_loop().time() + wait_s > deadline:
                    raise Unavailable("Telegram limits the rate.", retry_after_s=wait_s) from error
                await asyncio.sleep(wait_s)
                continue
            except InvalidToken as error:
                # a token can be put right; the words wait for it
                raise Unavailable("Telegram refuses the bot's token.") from error
            except (Forbidden, BadRequest) as error:
                return f"Telegram refuses: {error.message}"
            except NetworkError as error:
                raise _unsent_or_unknown(error) from error
            except TelegramError as error:
                raise Unavailable(f"Telegram refuses for now: {error.message}") from error
            return None

    def _remember(self, outbox_id: int, parts: int) -> None:
        self._sent[outbox_id] = parts
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)


def _unsent_or_unknown(error: NetworkError) -> Unavailable:
    if type(error.__cause__).__name__ in NOT_SENT:
        return Unavailable("Telegram cannot be reached; nothing was sent.")
    return OutcomeUnknown("The connection to Telegram broke while sending.")
