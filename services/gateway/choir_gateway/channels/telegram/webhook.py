"""Let Telegram bring updates to the gateway's door instead of asking for them.

Run by channel.py, which hands on what the door was brought; intake.py comes next. Telegram brings an
update again until it is answered with 200, which it is once control has stored it.
"""

import asyncio
import hmac
import json

import structlog
from telegram import Bot, Update
from telegram.error import BadRequest, RetryAfter, TelegramError

from choir_common.errors import BadInput, Unauthorized, Unavailable
from choir_common.wire.messages import InboundMessage, Press
from choir_gateway.channels.telegram.intake import FIRST_WAIT_S, LONGEST_WAIT_S, Intake
from choir_gateway.channels.telegram.pauses import explain, pause_of
from choir_gateway.channels.telegram.updates import WANTED

log = structlog.get_logger("choir.gateway.telegram")

# What the library raises for JSON of another shape: it takes types, depths and dates as they come.
NOT_AN_UPDATE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(RecursionError, OverflowError, OSError),
)
# Telegram itself waits a minute; control that is away for longer is asked again by the repetition
STORE_S = 20.0
# somebody else with the token may set another address, and Telegram keeps what goes wrong to itself
LOOK_AGAIN_S = 60.0


class Webhook:
    """The webhook of one bot."""

    def __init__(self, bot: Bot, gateway: str, url: str, secret: str, intake: Intake) -> None:
        self._bot = bot
        self._gateway = gateway
        self._url = url
        self._secret = secret
        self._intake = intake
        # one after the other, as they come: two at once would change the order of a conversation
        self._turn = asyncio.Lock()
        self.trouble: str | None = "has not told Telegram its webhook yet"

    async def run(self) -> None:
        """Set the webhook, and see to it that it stays, until cancelled."""
        failures = 0
        while True:
            try:
                await self._set()
                failures, wait_s = 0, LOOK_AGAIN_S
            except RetryAfter as error:
                wait_s = pause_of(error)
            except BadRequest as error:
                failures, wait_s = failures + 1, LONGEST_WAIT_S
                self._tell(f"Telegram refuses the webhook: {error.message}")
            except TelegramError as error:
                failures += 1
                wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(failures, 8))
                self._tell(explain(error))
            except Exception:  # the outermost loop of a bot: the others, and the console, go on
                wait_s = LONGEST_WAIT_S
                log.exception("webhook not set", gateway=self._gateway)
            await asyncio.sleep(wait_s)

    async def take(self, body: bytes, secret: str) -> None:
        """Store what Telegram brought.

        Raises Unauthorized for another secret, BadInput for what is no update, Unavailable.
        """
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            raise Unauthorized("The webhook's secret is another.")
        said = self._read(body)
        try:
            async with asyncio.timeout(STORE_S), self._turn:
                await self._intake.take(said)
        except TimeoutError:
            raise Unavailable("Control did not store it in time.") from None

    def _read(self, body: bytes) -> InboundMessage | Press | None:
        try:
            return self._intake.read(Update.de_json(json.loads(body), self._bot))
        except NOT_AN_UPDATE as error:
            raise BadInput("This is no update of Telegram's.") from error

    async def _set(self) -> None:
        found = await self._bot.get_webhook_info()
        if self.trouble or found.url != self._url:
            await self._bot.set_webhook(
                self._url,
                secret_token=self._secret,
                allowed_updates=WANTED,
                max_connections=1,
                drop_pending_updates=False,
            )
        behind = found.pending_update_count and found.last_error_message
        self.trouble = f"Telegram cannot bring updates: {behind}" if behind else None

    def _tell(self, trouble: str) -> None:
        self.trouble = trouble
        log.warning("no webhook", gateway=self._gateway, reason=trouble)
