"""One Telegram bot: receives updates, sends messages and files."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import httpx2
from telegram import Bot
from telegram.request import HTTPXRequest

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import NotFound
from choir_common.http.client import make_client
from choir_common.i18n import _
from choir_common.wire.activity import DmActivity, Draft
from choir_common.wire.events import NON_CLOSING_KINDS
from choir_common.wire.messages import DeliveryReceipt, GatewayBinding, OutboundMessage
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.activity import ActivityDisplay
from choir_gateway.channels.delivery import MultipartSender
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import StrangerReplies
from choir_gateway.channels.telegram.activity import TelegramActivityCalls
from choir_gateway.channels.telegram.addresses import parse_chat
from choir_gateway.channels.telegram.api_call import RateLimiter
from choir_gateway.channels.telegram.bot import make_bot
from choir_gateway.channels.telegram.drafts import DraftDisplay
from choir_gateway.channels.telegram.files import download_file
from choir_gateway.channels.telegram.polling import UpdatePoller
from choir_gateway.channels.telegram.reactions import MessageAcknowledger
from choir_gateway.channels.telegram.sender import TelegramPartSender
from choir_gateway.channels.telegram.update_handler import CommandMenu, UpdateHandler
from choir_gateway.channels.telegram.webhook import TOKEN_HEADER, WebhookReceiver

CONNECTIONS = 16


class TelegramChannel:
    """A bot and the parts that handle its traffic."""

    def __init__(
        self,
        gateway: GatewayBinding,
        *,
        bot: Bot,
        requests: Sequence[HTTPXRequest],
        downloads: httpx2.AsyncClient,
        webhook_secret: str | None,
        control: ControlClient,
        files: OutboxFilesClient,
        conversations: ConversationDirectory,
    ) -> None:
        self._name = gateway.name
        self._bot = bot
        self._requests = requests
        self._downloads = downloads
        self._conversations = conversations
        rate_limiter = RateLimiter()
        sender = TelegramPartSender(bot, files=files, rate_limiter=rate_limiter)
        self._delivery = MultipartSender(sender, control)
        self._notes = NoteQueue(self._delivery)
        self._activity = ActivityDisplay(TelegramActivityCalls(bot, rate_limiter), control)
        self._drafts = DraftDisplay(bot, rate_limiter)
        self._menu = CommandMenu(bot, conversations)
        self._acknowledger = MessageAcknowledger(bot, gateway.acknowledgement)
        self._strangers = StrangerReplies(gateway, control=control, notes=self._notes)
        handler = UpdateHandler(
            bot,
            gateway.name,
            control=control,
            conversations=conversations,
            notes=self._notes,
            menu=self._menu,
            acknowledger=self._acknowledger,
            strangers=self._strangers,
        )
        self._incoming: UpdatePoller | WebhookReceiver
        if gateway.webhook is not None and webhook_secret is not None:
            self._incoming = WebhookReceiver(
                bot,
                gateway.name,
                url=gateway.webhook.url,
                secret=webhook_secret,
                handler=handler,
            )
        else:
            self._incoming = UpdatePoller(bot, gateway.name, handler)

    async def run(self) -> None:
        """Receive updates until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            for request in self._requests:
                await stack.enter_async_context(request)
            await stack.enter_async_context(self._downloads)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            tasks.create_task(self._incoming.run())
            tasks.create_task(self._activity.run())
            tasks.create_task(self._drafts.run())
            tasks.create_task(self._notes.run())
            tasks.create_task(self._strangers.run())
            tasks.create_task(self._acknowledger.run())
            tasks.create_task(self._show_menus())

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message with its files to a user; raises as MultipartSender.deliver does."""
        if message.kind not in NON_CLOSING_KINDS:
            await self._drafts.end(user_id)
        return await self._delivery.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once. Telegram shows drafts in private chats only."""
        chat = parse_chat(user_id)
        if chat is None:
            return
        if isinstance(activity.what, Draft):
            if not chat.is_group:
                self._drafts.show(user_id, activity.what.text)
        else:
            self._activity.show(activity, user_id)

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `download_file` does."""
        return download_file(self._bot, self._downloads, ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Store an update from the webhook.

        Raises NotFound if the bot has no webhook, and as WebhookReceiver.store_update does.
        """
        if not isinstance(self._incoming, WebhookReceiver):
            raise NotFound(_("The bot {name!r} has no webhook.").format(name=self._name))
        await self._incoming.store_update(body, headers.get(TOKEN_HEADER, ""))

    def state(self) -> ComponentStatus:
        """Return the bot's state, with the reason if it receives no updates."""
        return ComponentStatus(name=self._name, ok=True, detail=self._incoming.error or "")

    async def _show_menus(self) -> None:
        for dm in list(self._conversations.by_name.values()):
            if dm.gateway == self._name:
                await self._menu.show(dm)


def make_telegram_channel(
    gateway: GatewayBinding,
    *,
    token: str,
    webhook_secret: str | None,
    services: ChannelServices,
) -> TelegramChannel:
    """Return the channel of a configured bot."""
    connection = make_bot(token, gateway.api_url, connections=CONNECTIONS)
    return TelegramChannel(
        gateway,
        bot=connection.bot,
        requests=connection.requests,
        downloads=make_client(connection.api),
        webhook_secret=webhook_secret,
        control=services.control,
        files=services.files,
        conversations=services.conversations,
    )
