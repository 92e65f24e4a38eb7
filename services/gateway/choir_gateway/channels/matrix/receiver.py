"""Receiver of users' messages, edits, deletions and reactions: each is stored by control, in order."""

from collections.abc import Sequence

import structlog

from choir_common.wire.messages import DmBinding
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.matrix.encryption import EncryptionWarning
from choir_gateway.channels.matrix.event_parser import (
    ENCRYPTED,
    MESSAGE,
    MESSAGE_TYPES,
    REACTION,
    REDACTION,
    parse_message,
    parse_redaction,
    read_body,
    redaction_target,
)
from choir_gateway.channels.matrix.events import (
    JoinedRoom,
    MatrixEvent,
    SyncResponse,
    parse_content,
    parse_relation,
)
from choir_gateway.channels.matrix.group_reader import GroupReader
from choir_gateway.channels.matrix.inbox import MatrixInbox
from choir_gateway.channels.matrix.invitations import InvitationAccepter
from choir_gateway.channels.matrix.message_calls import MatrixMessageCalls
from choir_gateway.channels.matrix.questions import QuestionBook
from choir_gateway.channels.matrix.rooms import RoomDirectory, RoomFinder
from choir_gateway.channels.matrix.state_store import MatrixStateStore
from choir_gateway.channels.strangers import Stranger, StrangerReplies

log = structlog.get_logger("choir.gateway.matrix")


class MatrixEventReceiver:
    """Receiver of one account's batches."""

    def __init__(
        self,
        gateway: str,
        *,
        calls: MatrixMessageCalls,
        directory: RoomDirectory,
        rooms: RoomFinder,
        store: MatrixStateStore,
        questions: QuestionBook,
        encryption: EncryptionWarning,
        invitations: InvitationAccepter,
        groups: GroupReader,
        inbox: MatrixInbox,
        conversations: ConversationDirectory,
        strangers: StrangerReplies,
    ) -> None:
        self._gateway = gateway
        self._calls = calls
        self._directory = directory
        self._rooms = rooms
        self._store = store
        self._questions = questions
        self._encryption = encryption
        self._invitations = invitations
        self._groups = groups
        self._inbox = inbox
        self._conversations = conversations
        self._strangers = strangers

    async def begin(self, bot_id: str, device_id: str) -> None:
        """Take the account of the token."""
        self._directory.bot_id = self._calls.bot_id = bot_id
        await self._store.begin(bot_id, device_id)

    async def take_batch(self, batch: SyncResponse, *, is_initial: bool) -> None:
        """Store a batch; `is_initial`: its messages are from before the first start."""
        await self._invitations.take_batch(batch, is_initial=is_initial)
        for room_id in batch.rooms.leave:
            self._directory.drop(room_id)
        for room_id, room in batch.rooms.join.items():
            for event in room.state.events:
                self._directory.apply(room_id, event)
        for room_id, room in batch.rooms.join.items():
            await self._take_room(room_id, room, is_initial=is_initial)
        self._rooms.note_batch()

    async def _take_room(self, room_id: str, room: JoinedRoom, *, is_initial: bool) -> None:
        events = room.timeline.events
        start = len(events) if is_initial else self._first_unread(events)
        for at, event in enumerate(events):
            if event.state_key is not None:
                self._directory.apply(room_id, event)
            elif at >= start and event.event_id not in self._store.state.handled:
                await self._take_event(room_id, event)

    def _first_unread(self, events: Sequence[MatrixEvent]) -> int:
        """Return the index after the bot's last invitation: what is before it, was not for the bot."""
        invites = [
            at
            for at, it in enumerate(events)
            if it.membership == "invite" and it.state_key == self._directory.bot_id
        ]
        return invites[-1] + 1 if invites else 0

    async def _take_event(self, room_id: str, event: MatrixEvent) -> None:
        if event.sender == self._directory.bot_id or "redacted_because" in event.unsigned:
            # The latter was deleted before it was read.
            return
        try:
            is_for_agent = await self._handle(room_id, event)
        except Exception:  # outermost loop of the events: continue with the next
            log.exception("event not stored", gateway=self._gateway, event=event.event_id)
            is_for_agent = True
        if is_for_agent:
            await self._store.note_handled(event.event_id)

    async def _handle(self, room_id: str, event: MatrixEvent) -> bool:
        """Handle an event; return whether it was for the agent."""
        if self._directory.is_group(room_id):
            message = await self._groups.read(room_id, event)
            if message is not None:
                await self._inbox.accept(
                    event, message.content, room_id=room_id, address=message.address
                )
            return message is not None
        dm = self._conversations.find(self._gateway, event.sender)
        if self._directory.direct_user(room_id) != event.sender:
            return False
        if dm is None:
            self._note_stranger(room_id, event)
            return False
        await self._handle_direct(room_id, event, dm)
        return True

    def _note_stranger(self, room_id: str, event: MatrixEvent) -> None:
        """Let a stranger ask for a conversation; what was written is not read."""
        content = parse_content(event.content)
        is_message = event.type in (*MESSAGE_TYPES, ENCRYPTED)
        is_edit = parse_relation(event).target("m.replace") is not None
        # Programs write notices, and answering them could begin a loop.
        is_notice = content is not None and content.msgtype == "m.notice"
        if is_message and not is_edit and not is_notice:
            name = self._directory.name_of(event.sender, room_id)
            self._strangers.add(Stranger(event.sender, name))

    async def _handle_direct(self, room_id: str, event: MatrixEvent, dm: DmBinding) -> None:
        if event.type in MESSAGE_TYPES:
            await self._take_message(room_id, event, dm)
        elif event.type == REACTION:
            relation = parse_relation(event)
            button = self._questions.find_by_reaction(
                dm.user_id, room_id, relation.target("m.annotation"), relation.key
            )
            if button is not None:
                await self._inbox.press(room_id, event, dm, button=button)
        elif event.type == ENCRYPTED:
            await self._encryption.warn(room_id, dm.user_id, dm.language)
        elif event.type == REDACTION:
            target = redaction_target(event)
            if target is not None and self._store.find_place(target) is not None:
                content = parse_redaction(event, self._gateway, dm, target=target)
                await self._inbox.accept(event, content, room_id=room_id, address=dm.user_id)

    async def _take_message(self, room_id: str, event: MatrixEvent, dm: DmBinding) -> None:
        relation = parse_relation(event)
        content = parse_content(event.content)
        if event.type == MESSAGE and content is not None and relation.rel_type != "m.replace":
            button = self._questions.find_by_number(
                dm.user_id, room_id, read_body(content), relation.reply_target
            )
            if button is not None:
                await self._inbox.press(room_id, event, dm, button=button)
                return
        message = parse_message(
            event,
            self._gateway,
            dm,
            quoted=await self._inbox.quote(room_id, relation.reply_target),
            commands=self._conversations.commands,
        )
        if message is not None:
            await self._store.note_room(dm.user_id, room_id)
            await self._inbox.accept(event, message, room_id=room_id, address=dm.user_id)
