"""One Discord bot: receives messages, sends messages and files."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

import discord
import httpx2

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import NotFound
from choir_common.http.client import make_client
from choir_common.i18n import _
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import DeliveryReceipt, GatewayBinding, OutboundMessage
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.activity import ActivityDisplay
from choir_gateway.channels.delivery import MultipartSender
from choir_gateway.channels.discord.activity import DiscordActivityCalls
from choir_gateway.channels.discord.client import PUBLIC_API, DiscordClient
from choir_gateway.channels.discord.connection import GatewayConnection
from choir_gateway.channels.discord.files import download_file
from choir_gateway.channels.discord.message_calls import DiscordMessageCalls
from choir_gateway.channels.discord.places import is_address
from choir_gateway.channels.discord.read_marks import ReadMarkStore
from choir_gateway.channels.discord.receiver import DiscordMessageReceiver
from choir_gateway.channels.discord.sender import DiscordPartSender
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import StrangerReplies

HEARTBEAT_TIMEOUT_S = 60.0
"""A connection that was silent for so long is dead; Discord answers a heartbeat every 41 s."""


class DiscordChannel:
    """A bot and the parts that handle its traffic."""

    def __init__(
        self,
        gateway: GatewayBinding,
        *,
        client: DiscordClient,
        token: str,
        downloads: httpx2.AsyncClient,
        marks: ReadMarkStore,
        control: ControlClient,
        files: OutboxFilesClient,
        conversations: ConversationDirectory,
    ) -> None:
        self._name = gateway.name
        self._client = client
        self._downloads = downloads
        calls = DiscordMessageCalls(client, gateway.name, conversations)
        self._delivery = MultipartSender(DiscordPartSender(calls, files), control)
        self._notes = NoteQueue(self._delivery)
        self._strangers = StrangerReplies(gateway, control=control, notes=self._notes)
        self._activity = ActivityDisplay(DiscordActivityCalls(calls, gateway.name), control)
        self._connection = GatewayConnection(
            client, token, gateway=gateway.name, conversations=conversations
        )
        self._receiver = DiscordMessageReceiver(
            client,
            gateway.name,
            control=control,
            conversations=conversations,
            notes=self._notes,
            strangers=self._strangers,
            marks=marks,
        )
        for handler in (
            self.on_connect,
            self.on_resumed,
            self.on_message,
            self.on_raw_message_edit,
            self.on_interaction,
        ):
            client.event(handler)

    async def run(self) -> None:
        """Receive messages until cancelled."""
        async with self._downloads, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._receiver.run())
            tasks.create_task(self._activity.run())
            tasks.create_task(self._notes.run())
            tasks.create_task(self._strangers.run())
            tasks.create_task(self._connection.run(self._receiver))

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message with its files to a user or a channel; raises as MultipartSender.deliver does."""
        return await self._delivery.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once."""
        if is_address(user_id):
            self._activity.show(activity, user_id)

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `download_file` does."""
        return download_file(self._client, self._downloads, ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise NotFound: Discord sends messages over the bot's own connection."""
        raise NotFound(_("The bot {name!r} has no webhook.").format(name=self._name))

    def state(self) -> ComponentStatus:
        """Return the bot's state, with the reason if it receives no messages."""
        return ComponentStatus(name=self._name, ok=True, detail=self._connection.error or "")

    async def on_connect(self) -> None:
        """Read what was missed, at the start of a session."""
        self._connection.note_session()
        self._receiver.take_session()

    async def on_resumed(self) -> None:
        """Note that the session goes on; Discord repeats what was missed."""
        self._connection.note_session()

    async def on_message(self, message: discord.Message) -> None:
        """Take a new message."""
        self._receiver.take_message(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Take an edited message."""
        self._receiver.take_message(event.message)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Take the press of a button."""
        await self._receiver.take_interaction(interaction)


def make_discord_channel(
    gateway: GatewayBinding,
    *,
    token: str,
    services: ChannelServices,
    heartbeat_timeout_s: float = HEARTBEAT_TIMEOUT_S,
) -> DiscordChannel:
    """Return the channel of a configured bot."""
    api = (gateway.api_url or PUBLIC_API).rstrip("/")
    return DiscordChannel(
        gateway,
        client=DiscordClient(api, heartbeat_timeout_s),
        token=token,
        downloads=make_client(api),
        marks=ReadMarkStore(services.directory / f"{gateway.name}.json"),
        control=services.control,
        files=services.files,
        conversations=services.conversations,
    )
