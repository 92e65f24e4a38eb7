"""Reading of the events of groups: those for the agent become messages of their authors.

Any member can send any event, so an edit or a deletion counts only from the author of the message. Reactions
and numbers decide nothing here: no question is asked in a group.
"""

from dataclasses import dataclass

from choir_common.i18n import ENGLISH
from choir_common.wire.messages import DmBinding, InboundMessage, QuotedMessage
from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.matrix.addresses import format_group
from choir_gateway.channels.matrix.encryption import EncryptionWarning
from choir_gateway.channels.matrix.event_parser import (
    ENCRYPTED,
    MESSAGE_TYPES,
    REDACTION,
    parse_message,
    parse_redaction,
    quote_event,
    redaction_target,
)
from choir_gateway.channels.matrix.events import (
    MatrixEvent,
    MessageContent,
    parse_content,
    parse_relation,
)
from choir_gateway.channels.matrix.group_messages import BotNames, GroupContext, is_addressed
from choir_gateway.channels.matrix.inbox import MatrixInbox
from choir_gateway.channels.matrix.rooms import RoomDirectory
from choir_gateway.channels.matrix.state_store import MatrixStateStore, MessageCoordinates


@dataclass(frozen=True, slots=True)
class MatrixGroupMessage:
    """A message of a group that is for the agent."""

    content: InboundMessage
    address: str
    """Where notes about it go."""


class GroupReader:
    """Reader of the groups of one account."""

    def __init__(
        self,
        gateway: str,
        *,
        directory: RoomDirectory,
        store: MatrixStateStore,
        conversations: ConversationDirectory,
        inbox: MatrixInbox,
        encryption: EncryptionWarning,
    ) -> None:
        self._gateway = gateway
        self._directory = directory
        self._store = store
        self._conversations = conversations
        self._inbox = inbox
        self._encryption = encryption

    async def read(self, room_id: str, event: MatrixEvent) -> MatrixGroupMessage | None:
        """Return the message in an event; None if it is not for the agent."""
        if event.type in MESSAGE_TYPES:
            return await self._read_message(room_id, event)
        if event.type == REDACTION:
            return self._read_redaction(room_id, event)
        if event.type == ENCRYPTED:
            dm = self._conversations.find_group(self._gateway, room_id)
            await self._encryption.warn_group(room_id, dm.language if dm else ENGLISH)
        return None

    async def _read_message(self, room_id: str, event: MatrixEvent) -> MatrixGroupMessage | None:
        relation = parse_relation(event)
        edited = relation.target("m.replace")
        original = self._find_own(edited, event.sender)
        if edited is not None and original is None:
            return None
        thread = original.thread if original is not None else relation.target("m.thread")
        dm = self._conversations.find_group(self._gateway, room_id, thread or "")
        if dm is None:
            return None
        content = parse_content(event.content) or MessageContent()
        context = self._make_context(room_id, event, thread)
        is_for_agent = original is not None or dm.answers == "all"
        is_for_agent = is_for_agent or is_addressed(content, context.names)
        quoted: QuotedMessage | None = None
        if (target := relation.reply_target) is not None:
            earlier = await self._inbox.read_event(room_id, target)
            is_reply = earlier is not None and earlier.sender == self._directory.bot_id
            is_for_agent = is_for_agent or is_reply
            quoted = quote_event(earlier) if earlier else QuotedMessage(message_id=target)
        if not is_for_agent:
            return None
        message = parse_message(
            event,
            self._gateway,
            dm,
            quoted=quoted,
            commands=self._conversations.commands,
            group=context,
        )
        return self._address(message, dm, room_id, thread=thread)

    def _read_redaction(self, room_id: str, event: MatrixEvent) -> MatrixGroupMessage | None:
        target = redaction_target(event)
        original = self._find_own(target, event.sender)
        if target is None or original is None:
            return None
        dm = self._conversations.find_group(self._gateway, room_id, original.thread or "")
        if dm is None:
            return None
        context = self._make_context(room_id, event, original.thread)
        message = parse_redaction(event, self._gateway, dm, target=target, group=context)
        return self._address(message, dm, room_id, thread=original.thread)

    def _find_own(self, event_id: str | None, sender: str) -> MessageCoordinates | None:
        """Return an earlier message that the agent got from the same author."""
        place = self._store.find_place(event_id) if event_id is not None else None
        return place if place is not None and place.sender == sender else None

    def _make_context(self, room_id: str, event: MatrixEvent, thread: str | None) -> GroupContext:
        bot_id = self._directory.bot_id
        author = GroupMember(
            user_id=event.sender, name=self._directory.name_of(event.sender, room_id)
        )
        names = BotNames(bot_id, self._directory.name_of(bot_id, room_id))
        return GroupContext(author, names, thread)

    def _address(
        self, message: InboundMessage | None, dm: DmBinding, room_id: str, *, thread: str | None
    ) -> MatrixGroupMessage | None:
        if message is None:
            return None
        return MatrixGroupMessage(
            message, dm.address if dm.topic else format_group(room_id, thread)
        )
