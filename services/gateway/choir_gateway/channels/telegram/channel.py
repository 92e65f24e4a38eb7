"""One Telegram bot: polling in, sending out. Made by `lazily`, run by roster.py."""

import contextlib
from collections.abc import Sequence

from telegram import Bot
from telegram.request import HTTPXRequest

from choir_common.clients.control import ControlInbox
from choir_common.wire.messages import GatewayBinding, InboundMessage, OutboundMessage, Receipt
from choir_common.wire.operator import PartStatus
from choir_gateway.channels.port import Contacts
from choir_gateway.channels.telegram.polling import Polling
from choir_gateway.channels.telegram.sending import Sending

PUBLIC_API = "https://api.telegram.org"
CONNECTIONS = 16


class TelegramChannel:
    """A bot with its long poll."""

    def __init__(
        self,
        name: str,
        bot: Bot,
        requests: Sequence[HTTPXRequest],
        control: ControlInbox,
        contacts: Contacts,
    ) -> None:
        self._name = name
        self._requests = requests
        self._contacts = contacts
        self._sending = Sending(bot)
        self._polling = Polling(bot, name, control, contacts, self._pass_note)

    async def run(self) -> None:
        """Take in messages until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            for request in self._requests:
                await stack.enter_async_context(request)
            await self._polling.run()

    async def deliver(self, message: OutboundMessage, user_id: str) -> Receipt:
        """Send words to a user; raises as Sending.deliver does."""
        return await self._sending.deliver(message, user_id)

    def state(self) -> PartStatus:
        """Tell what keeps the bot from hearing Telegram, if anything."""
        return PartStatus(name=self._name, ok=True, detail=self._polling.trouble or "")

    async def _pass_note(self, message: InboundMessage, note: str) -> None:
        dm = self._contacts.by_name.get(message.dm)
        if dm is not None:
            await self._sending.notify(dm.user_id, note)


def make_telegram_channel(
    gateway: GatewayBinding, token: str, control: ControlInbox, contacts: Contacts
) -> TelegramChannel:
    """Return the channel of a configured bot."""
    api = (gateway.api_url or PUBLIC_API).rstrip("/")
    # the long poll must not wait for a connection that an answer holds
    sending, polling = _requests(CONNECTIONS), _requests(2)
    bot = Bot(
        token,
        base_url=f"{api}/bot",
        base_file_url=f"{api}/file/bot",
        request=sending,
        get_updates_request=polling,
    )
    return TelegramChannel(gateway.name, bot, (sending, polling), control, contacts)


def _requests(connections: int) -> HTTPXRequest:
    return HTTPXRequest(connection_pool_size=connections, httpx_kwargs={"trust_env": False})
