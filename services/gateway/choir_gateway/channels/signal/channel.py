"""One Signal account: receives and sends messages and files through signal-cli-rest-api."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import NotFound
from choir_common.http.client import make_client
from choir_common.i18n import _
from choir_common.wire.activity import DmActivity
from choir_common.wire.channel_config import SignalConfig
from choir_common.wire.messages import DeliveryReceipt, GatewayBinding, OutboundMessage
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.activity import ActivityDisplay
from choir_gateway.channels.delivery import MultipartSender
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.signal.activity import SignalActivityCalls
from choir_gateway.channels.signal.addresses import is_address
from choir_gateway.channels.signal.api_client import SignalApi
from choir_gateway.channels.signal.connection import SignalConnection
from choir_gateway.channels.signal.files import download_file
from choir_gateway.channels.signal.journal import SignalJournal
from choir_gateway.channels.signal.message_calls import QuotableTexts, SignalMessageCalls
from choir_gateway.channels.signal.questions import SignalQuestionBook
from choir_gateway.channels.signal.reactions import SignalAcknowledger
from choir_gateway.channels.signal.receiver import SignalReceiver
from choir_gateway.channels.signal.sender import SignalPartSender
from choir_gateway.channels.signal.socket import SocketSettings
from choir_gateway.channels.signal.state_store import SignalStateStore
from choir_gateway.channels.strangers import StrangerReplies

HEARTBEAT_S = 30.0


class SignalChannel:
    """An account and the parts that handle its traffic."""

    def __init__(
        self,
        gateway: GatewayBinding,
        *,
        account: SignalConfig,
        api: SignalApi,
        socket: SocketSettings,
        directory: Path,
        control: ControlClient,
        files: OutboxFilesClient,
        conversations: ConversationDirectory,
    ) -> None:
        self._name = gateway.name
        self._api = api
        self._store = store = SignalStateStore(directory / f"{gateway.name}.json")
        self._journal = SignalJournal(directory / gateway.name)
        questions, texts = SignalQuestionBook(store), QuotableTexts()
        calls = SignalMessageCalls(api, store, texts)
        sender = SignalPartSender(calls, files=files, questions=questions)
        self._delivery = MultipartSender(sender, control)
        self._notes = NoteQueue(self._delivery)
        self._strangers = StrangerReplies(gateway, control=control, notes=self._notes)
        self._activity = ActivityDisplay(SignalActivityCalls(api, calls), control)
        self._acknowledger = SignalAcknowledger(api, gateway.acknowledgement)
        self._receiver = SignalReceiver(
            gateway.name,
            api=api,
            journal=self._journal,
            store=store,
            questions=questions,
            texts=texts,
            expiring=account.expiring_messages,
            control=control,
            conversations=conversations,
            notes=self._notes,
            strangers=self._strangers,
            acknowledger=self._acknowledger,
        )
        self._connection = SignalConnection(
            api, gateway.name, settings=socket, receiver=self._receiver, store=store
        )

    async def run(self) -> None:
        """Receive messages until cancelled."""
        async with self._api.client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._connection.run())
            tasks.create_task(self._receiver.run())
            tasks.create_task(self._activity.run())
            tasks.create_task(self._notes.run())
            tasks.create_task(self._strangers.run())
            tasks.create_task(self._acknowledger.run())

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message with its files; raises as MultipartSender.deliver does."""
        return await self._delivery.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once."""
        if is_address(user_id):
            self._activity.show(activity, user_id)

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `download_file` does."""
        return download_file(self._api.client, ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise NotFound: messages arrive over the channel's own connection."""
        raise NotFound(_("The gateway {name!r} has no webhook.").format(name=self._name))

    async def erase_user(self, user_id: str) -> int:
        """Erase what is stored about a user; return the number of records. Raises Unavailable."""
        return await self._store.erase_user(user_id)

    def state(self) -> ComponentStatus:
        """Return the account's state, with the reason if messages do not arrive or wait."""
        reasons = dict.fromkeys((self._connection.error, self._api.error, self._journal.error))
        return ComponentStatus(name=self._name, ok=True, detail=" ".join(filter(None, reasons)))


def make_signal_channel(
    gateway: GatewayBinding,
    *,
    account: SignalConfig,
    address: str,
    secret: str | None,
    services: ChannelServices,
    heartbeat_s: float = HEARTBEAT_S,
) -> SignalChannel:
    """Return the channel of an account."""
    base = address.rstrip("/")
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    api = SignalApi(make_client(base, headers=headers), account.number)
    return SignalChannel(
        gateway,
        account=account,
        api=api,
        socket=SocketSettings(f"{base}{api.receive_path}", headers, heartbeat_s),
        directory=services.directory,
        control=services.control,
        files=services.files,
        conversations=services.conversations,
    )
