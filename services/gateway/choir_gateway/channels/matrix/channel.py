"""One Matrix account: receives messages in direct rooms and groups, sends messages and files."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import NotFound
from choir_common.i18n import _
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import DeliveryReceipt, GatewayBinding, OutboundMessage
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.activity import ActivityDisplay
from choir_gateway.channels.delivery import MultipartSender
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.matrix.acknowledgements import EventAcknowledger
from choir_gateway.channels.matrix.activity import EDIT_S, MatrixActivityCalls
from choir_gateway.channels.matrix.addresses import is_address
from choir_gateway.channels.matrix.client import MatrixClient
from choir_gateway.channels.matrix.connection import SyncConnection
from choir_gateway.channels.matrix.encryption import EncryptionWarning
from choir_gateway.channels.matrix.files import FileUploader, download_file
from choir_gateway.channels.matrix.group_reader import GroupReader
from choir_gateway.channels.matrix.inbox import MatrixInbox
from choir_gateway.channels.matrix.invitations import InvitationAccepter
from choir_gateway.channels.matrix.message_calls import MatrixMessageCalls
from choir_gateway.channels.matrix.questions import QuestionBook
from choir_gateway.channels.matrix.receiver import MatrixEventReceiver
from choir_gateway.channels.matrix.rooms import RoomDirectory, RoomFinder
from choir_gateway.channels.matrix.sender import MatrixPartSender
from choir_gateway.channels.matrix.state_store import MatrixStateStore
from choir_gateway.channels.matrix.stranger_rooms import StrangerRoomCleaner
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import StrangerReplies


class MatrixChannel:
    """An account and the parts that handle its traffic."""

    def __init__(
        self,
        gateway: GatewayBinding,
        *,
        client: MatrixClient,
        store: MatrixStateStore,
        control: ControlClient,
        files: OutboxFilesClient,
        conversations: ConversationDirectory,
        edit_s: float,
    ) -> None:
        self._name = name = gateway.name
        self._client = client
        self._store = store
        self._control = control
        self._conversations = conversations
        calls = MatrixMessageCalls(client)
        directory, questions = RoomDirectory(name, conversations), QuestionBook(store)
        rooms = RoomFinder(client, directory, store)
        sender = MatrixPartSender(
            calls,
            rooms=rooms,
            store=store,
            questions=questions,
            uploader=FileUploader(client, calls, files),
        )
        self._delivery = MultipartSender(sender, control)
        self._notes = NoteQueue(self._delivery)
        self._strangers = StrangerReplies(gateway, control=control, notes=self._notes)
        self._cleaner = StrangerRoomCleaner(directory=directory, rooms=rooms, store=store)
        activity = MatrixActivityCalls(calls, rooms, name)
        self._activity = ActivityDisplay(activity, control, edit_s=edit_s)
        self._acknowledger = EventAcknowledger(calls, gateway.acknowledgement)
        self._invitations = InvitationAccepter(
            name, directory=directory, rooms=rooms, store=store, strangers=self._strangers
        )
        self._connection = SyncConnection(client, store, name)
        self._receiver = self._make_receiver(
            calls, directory=directory, rooms=rooms, questions=questions
        )

    def _make_receiver(
        self,
        calls: MatrixMessageCalls,
        *,
        directory: RoomDirectory,
        rooms: RoomFinder,
        questions: QuestionBook,
    ) -> MatrixEventReceiver:
        inbox = MatrixInbox(
            self._client,
            self._name,
            store=self._store,
            acknowledger=self._acknowledger,
            control=self._control,
            notes=self._notes,
        )
        encryption = EncryptionWarning(calls, rooms, self._store)
        groups = GroupReader(
            self._name,
            directory=directory,
            store=self._store,
            conversations=self._conversations,
            inbox=inbox,
            encryption=encryption,
        )
        return MatrixEventReceiver(
            self._name,
            calls=calls,
            directory=directory,
            rooms=rooms,
            store=self._store,
            questions=questions,
            encryption=encryption,
            invitations=self._invitations,
            groups=groups,
            inbox=inbox,
            conversations=self._conversations,
            strangers=self._strangers,
        )

    async def run(self) -> None:
        """Receive messages until cancelled."""
        async with self._client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._activity.run())
            tasks.create_task(self._notes.run())
            tasks.create_task(self._strangers.run())
            tasks.create_task(self._cleaner.run())
            tasks.create_task(self._acknowledger.run())
            tasks.create_task(self._invitations.run())
            tasks.create_task(self._connection.run(self._receiver))

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message with its files to a user or a group; raises as MultipartSender.deliver does."""
        return await self._delivery.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once."""
        if is_address(user_id):
            self._activity.show(activity, user_id)

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `download_file` does."""
        return download_file(self._client, ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise NotFound: the channel polls its homeserver."""
        raise NotFound(_("The bot {name!r} has no webhook.").format(name=self._name))

    async def erase_user(self, user_id: str) -> int:
        """Erase a user's open questions and invitations; return their number. Raises Unavailable."""
        return await self._store.erase_user(user_id)

    def state(self) -> ComponentStatus:
        """Return the account's state, with the reason if it receives no messages."""
        return ComponentStatus(name=self._name, ok=True, detail=self._connection.error or "")


def make_matrix_channel(
    gateway: GatewayBinding,
    *,
    homeserver: str,
    token: str,
    services: ChannelServices,
    edit_s: float = EDIT_S,
) -> MatrixChannel:
    """Return the channel of a configured account."""
    return MatrixChannel(
        gateway,
        client=MatrixClient(homeserver, token),
        store=MatrixStateStore(services.directory / f"{gateway.name}.json"),
        control=services.control,
        files=services.files,
        conversations=services.conversations,
        edit_s=edit_s,
    )
