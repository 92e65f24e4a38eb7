"""The calls that send the parts of a message to Matrix; `channels.delivery` decides when.

Each part has a transaction id, by which the homeserver recognises a repetition.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from choir_common.errors import OutcomeUnknown
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.model import JsonObject
from choir_gateway.channels.delivery import PartTarget, UploadBrokenError
from choir_gateway.channels.matrix.addresses import is_address, parse_group, parse_message_id
from choir_gateway.channels.matrix.files import FileUploader
from choir_gateway.channels.matrix.message_calls import MatrixMessageCalls, hash_key, make_relation
from choir_gateway.channels.matrix.parts import (
    MatrixMessagePart,
    add_choices,
    label_repeated,
    split_message,
    split_note,
)
from choir_gateway.channels.matrix.questions import QuestionBook
from choir_gateway.channels.matrix.rooms import RoomFinder
from choir_gateway.channels.matrix.state_store import MatrixStateStore

TRANSACTION_LASTS = timedelta(minutes=30)
"""The specification says nothing; Synapse remembers a transaction for a day, Dendrite for half an hour."""


class MatrixPartSender:
    """Sender of the texts and files of one account; implements `PartSender`."""

    messenger: ClassVar[str] = "Matrix"
    recognition_s: ClassVar[float] = TRANSACTION_LASTS.total_seconds()

    def __init__(
        self,
        calls: MatrixMessageCalls,
        *,
        rooms: RoomFinder,
        store: MatrixStateStore,
        questions: QuestionBook,
        uploader: FileUploader,
    ) -> None:
        self._calls = calls
        self._rooms = rooms
        self._store = store
        self._questions = questions
        self._uploader = uploader

    def is_user_id(self, user_id: str) -> bool:
        """Return whether the text is the address of a user or a group."""
        return is_address(user_id)

    def is_recognised(self, message: OutboundMessage) -> bool:
        """Return whether the homeserver recognises a repetition of a part.

        It does for the same device and for a while, and no attempt is older than the message.
        """
        is_recent = datetime.now(UTC) - message.at < TRANSACTION_LASTS
        return is_recent and self._store.state.device_since < message.at

    def split(self, message: OutboundMessage) -> Sequence[MatrixMessagePart]:
        """Return the parts of a message."""
        return split_message(message)

    def split_note(self, text: str) -> Sequence[MatrixMessagePart]:
        """Return the parts of a note."""
        return split_note(text)

    def label(self, part: MatrixMessagePart, language: str) -> MatrixMessagePart:
        """Return the part with a label."""
        return label_repeated(part, language)

    def file_of(self, part: MatrixMessagePart) -> Attachment | None:
        """Return the file of a part."""
        return part.file

    def has_text(self, part: MatrixMessagePart) -> bool:
        """Return whether the part has a text."""
        return bool(part.styled)

    async def send(self, part: MatrixMessagePart, target: PartTarget) -> str:
        """Send a text or a question; raises as `RoomFinder.open` and `MatrixMessageCalls.send`."""
        room_id = await self._rooms.open(target.user_id, target.deadline)
        if part.buttons:
            # The choices are recorded before the user can see them.
            question = await self._open_question(part, target, room_id)
            event_id = await self._send(question, target, room_id)
            await self._questions.note_sent(target.key, event_id)
            return event_id
        event_id = await self._send(part, target, room_id)
        if not part.is_notice:
            await self._questions.note_message(target.user_id)
        return event_id

    async def send_file(self, part: MatrixMessagePart, target: PartTarget) -> str:
        """Send a file, which may have a text; raises as `FileUploader.upload` and `send`."""
        if part.file is None:
            return await self.send(part, target)
        room_id = await self._rooms.open(target.user_id, target.deadline)
        try:
            address = await self._uploader.upload(
                target.outbox_id, part.file, deadline=target.deadline
            )
        except OutcomeUnknown as error:
            # Nobody sees a file that no event names.
            raise UploadBrokenError(error.message) from error
        event_id = await self._send(part, target, room_id, address=address)
        await self._questions.note_message(target.user_id)
        return event_id

    async def edit(self, part: MatrixMessagePart, message_id: str, target: PartTarget) -> None:
        """Edit a message, or replace a question; raises as `MatrixMessageCalls.edit`."""
        room_id = await self._rooms.open(target.user_id, target.deadline)
        if part.buttons:
            text = await self._open_question(part, target, room_id)
        else:
            text = part
            await self._questions.close(message_id)
        await self._calls.edit(
            room_id,
            message_id,
            text,
            transaction_id=hash_key(target.key, "edit"),
            deadline=target.deadline,
        )
        if part.buttons:
            await self._questions.note_sent(target.key, message_id)

    async def report_lost_file(
        self, part: MatrixMessagePart, target: PartTarget, sentence: str
    ) -> str:
        """Send a sentence about a file, and the text of its part."""
        (note, *_) = split_note(sentence)
        sorry = replace(note, is_notice=False)
        event_id = await self.send(sorry, replace(target, key=hash_key(target.key, "lost file")))
        return await self.send(replace(part, file=None), target) if part.styled else event_id

    async def _open_question(
        self, part: MatrixMessagePart, target: PartTarget, room_id: str
    ) -> MatrixMessagePart:
        choices = await self._questions.open(target.key, target.user_id, room_id, part.buttons)
        return add_choices(part, choices, target.language)

    async def _send(
        self,
        part: MatrixMessagePart,
        target: PartTarget,
        room_id: str,
        *,
        address: str | None = None,
    ) -> str:
        return await self._calls.send(
            room_id,
            part,
            transaction_id=target.key,
            deadline=target.deadline,
            relation=self._relation(target),
            address=address,
        )

    def _relation(self, target: PartTarget) -> JsonObject | None:
        """Return the relation of a part: all of them go to the thread of the message that is answered."""
        group, question = parse_group(target.user_id), parse_message_id(target.reply_to)
        place = None
        if question is not None:
            place = self._store.find_place(question.event_id)
        elif target.answers is not None:
            place = self._store.state.messages.get(target.answers)
        threads = (
            question.thread if question else None,
            place.thread if place else None,
            group.thread if group else None,
        )
        thread = next((it for it in threads if it is not None), None)
        is_first = target.number == 0
        reply_to = question.event_id if question and is_first else None
        return make_relation(thread, reply_to, place.event_id if place else None)
