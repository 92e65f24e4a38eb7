"""Transfer of messages and presses to control, which is tried again until control has answered.

Called by `receiver`, one event at a time, so that the messages of a conversation stay in order.
"""

import asyncio

import structlog

from choir_common.clients.control import ControlClient
from choir_common.wire.attachments import Button
from choir_common.wire.messages import ButtonPress, DmBinding, InboundMessage, QuotedMessage
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.matrix.acknowledgements import EventAcknowledger
from choir_gateway.channels.matrix.client import (
    NETWORK_ERRORS,
    MatrixClient,
    MatrixError,
    make_path,
)
from choir_gateway.channels.matrix.event_parser import quote_event
from choir_gateway.channels.matrix.events import MatrixEvent, parse_relation
from choir_gateway.channels.matrix.state_store import MatrixStateStore, MessageCoordinates
from choir_gateway.channels.notes import NoteQueue

log = structlog.get_logger("choir.gateway.matrix")

QUOTE_TIMEOUT_S = 10.0


class MatrixInbox:
    """Inbox of one account."""

    def __init__(
        self,
        client: MatrixClient,
        gateway: str,
        *,
        store: MatrixStateStore,
        acknowledger: EventAcknowledger,
        control: ControlClient,
        notes: NoteQueue,
    ) -> None:
        self._client = client
        self._gateway = gateway
        self._store = store
        self._acknowledger = acknowledger
        self._control = control
        self._notes = notes

    async def accept(
        self, event: MatrixEvent, message: InboundMessage, *, room_id: str, address: str
    ) -> None:
        """Store a message; notes about it go to `address`."""
        acceptance = await repeat_until_accepted(
            lambda: self._control.accept(message), self._gateway
        )
        if acceptance is None:
            return
        if message.edits is None and acceptance.inbox_id:
            place = MessageCoordinates(
                event_id=event.event_id,
                thread=parse_relation(event).target("m.thread"),
                sender=event.sender,
            )
            await self._store.note_message(acceptance.inbox_id, place)
        is_answered = acceptance.command is None and message.edits is None
        self._acknowledger.add(
            room_id, event.event_id, has_reaction=is_answered and not acceptance.duplicate
        )
        # The note of a repeated message was sent before.
        if not acceptance.duplicate and acceptance.note is not None:
            self._notes.add(address, acceptance.note)

    async def press(
        self, room_id: str, event: MatrixEvent, dm: DmBinding, *, button: Button
    ) -> None:
        """Store the choice of a button by a number or a reaction."""
        relation = parse_relation(event)
        is_number = relation.rel_type != "m.annotation"
        press = ButtonPress(
            gateway=self._gateway,
            user_id=dm.user_id,
            # Control knows a DM by its user; the room has no other member.
            chat_id=dm.user_id,
            data=button.data,
            message_id=relation.reply_target if is_number else relation.event_id,
            callback_id=event.event_id[:100],
        )
        response = await repeat_until_accepted(lambda: self._control.press(press), self._gateway)
        if response is not None:
            self._notes.add(dm.user_id, response.answer)
        if is_number:
            self._acknowledger.add(room_id, event.event_id, has_reaction=False)

    async def read_event(self, room_id: str, event_id: str) -> MatrixEvent | None:
        """Return an earlier event, or None if it cannot be read."""
        path = make_path("rooms", room_id, "event", event_id)
        try:
            async with asyncio.timeout(QUOTE_TIMEOUT_S):
                answer = await self._client.call("GET", path)
            return MatrixEvent.model_validate(answer)
        except (MatrixError, TimeoutError, ValueError, *NETWORK_ERRORS) as error:
            log.info("quoted message not read", error=type(error).__name__)
            return None

    async def quote(self, room_id: str, target: str | None) -> QuotedMessage | None:
        """Return the message to which a user replied; without its text if it cannot be read."""
        if target is None:
            return None
        event = await self.read_event(room_id, target)
        return quote_event(event) if event is not None else QuotedMessage(message_id=target)
