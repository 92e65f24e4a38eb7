"""One Slack app: receives direct messages and those of channels, sends messages and files."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

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
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.slack.activity import SlackActivityCalls
from choir_gateway.channels.slack.choices import NumberedChoices
from choir_gateway.channels.slack.client import PUBLIC_API, SlackClient
from choir_gateway.channels.slack.connection import SocketConnection
from choir_gateway.channels.slack.files import download_file
from choir_gateway.channels.slack.history import HistoryReader
from choir_gateway.channels.slack.members import SlackMembers
from choir_gateway.channels.slack.message_calls import SlackMessageCalls
from choir_gateway.channels.slack.reactions import SlackAcknowledger
from choir_gateway.channels.slack.read_marks import SlackReadMarkStore
from choir_gateway.channels.slack.receiver import SlackMessageReceiver
from choir_gateway.channels.slack.sender import SlackPartSender
from choir_gateway.channels.strangers import StrangerReplies

HEARTBEAT_S = 20.0
"""A ping is sent so often; a connection without an answer to it is dead."""


class SlackChannel:
    """An app and the parts that handle its traffic."""

    def __init__(
        self,
        gateway: GatewayBinding,
        *,
        client: SlackClient,
        downloads: httpx2.AsyncClient,
        marks: SlackReadMarkStore,
        control: ControlClient,
        files: OutboxFilesClient,
        conversations: ConversationDirectory,
    ) -> None:
        self._name = gateway.name
        self._client = client
        self._downloads = downloads
        choices = NumberedChoices()
        calls = SlackMessageCalls(client, choices)
        sender = SlackPartSender(calls, files=files, marks=marks)
        self._sender = sender
        self._delivery = MultipartSender(sender, control)
        self._notes = NoteQueue(self._delivery)
        self._strangers = StrangerReplies(gateway, control=control, notes=self._notes)
        self._signs = SlackActivityCalls(calls, marks)
        self._activity = ActivityDisplay(self._signs, control)
        self._acknowledger = SlackAcknowledger(calls, gateway.acknowledgement)
        self._receiver = SlackMessageReceiver(
            gateway.name,
            calls=calls,
            history=HistoryReader(client, calls),
            members=SlackMembers(client),
            choices=choices,
            control=control,
            conversations=conversations,
            notes=self._notes,
            strangers=self._strangers,
            acknowledger=self._acknowledger,
            marks=marks,
        )
        self._connection = SocketConnection(client, gateway.name, self._receiver)

    async def run(self) -> None:
        """Receive messages until cancelled."""
        async with self._downloads, self._client.opened(), asyncio.TaskGroup() as tasks:
            tasks.create_task(self._receiver.run())
            tasks.create_task(self._activity.run())
            tasks.create_task(self._notes.run())
            tasks.create_task(self._strangers.run())
            tasks.create_task(self._acknowledger.run())
            tasks.create_task(self._connection.run())
            tasks.create_task(self._signs.clear_left_signs(self._receiver.addresses))

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message with its files to a user; raises as MultipartSender.deliver does."""
        return await self._delivery.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once."""
        if self._sender.is_user_id(user_id):
            self._activity.show(activity, user_id)

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `download_file` does."""
        return download_file(self._client, self._downloads, ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise NotFound: Slack sends messages over the app's own connection."""
        raise NotFound(_("The app {name!r} has no webhook.").format(name=self._name))

    def state(self) -> ComponentStatus:
        """Return the app's state, with the reason if it receives no messages."""
        return ComponentStatus(name=self._name, ok=True, detail=self._connection.error or "")


def make_slack_channel(
    gateway: GatewayBinding,
    *,
    bot_token: str,
    app_token: str,
    services: ChannelServices,
    heartbeat_s: float = HEARTBEAT_S,
) -> SlackChannel:
    """Return the channel of a configured app."""
    api = (gateway.api_url or PUBLIC_API).rstrip("/")
    return SlackChannel(
        gateway,
        client=SlackClient(api, bot_token=bot_token, app_token=app_token, heartbeat_s=heartbeat_s),
        downloads=make_client(api),
        marks=SlackReadMarkStore(services.directory / f"{gateway.name}.json"),
        control=services.control,
        files=services.files,
        conversations=services.conversations,
    )
