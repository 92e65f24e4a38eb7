"""The calls that send the parts of a message to Signal; `channels.delivery` decides when."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from choir_common.clients.control import OutboxFilesClient
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.delivery import PartTarget
from choir_gateway.channels.signal.addresses import is_address
from choir_gateway.channels.signal.files import fetch_upload
from choir_gateway.channels.signal.message_calls import SignalMessageCalls
from choir_gateway.channels.signal.parts import (
    SignalMessagePart,
    add_choices,
    label_repeated,
    split_message,
    split_note,
)
from choir_gateway.channels.signal.questions import SignalQuestionBook


class SignalPartSender:
    """Sender of the texts and files of one account; implements `PartSender`."""

    messenger: ClassVar[str] = "Signal"
    # A repeated call gets another time, and is another message.
    recognition_s: ClassVar[float] = 0.0

    def __init__(
        self,
        calls: SignalMessageCalls,
        *,
        files: OutboxFilesClient,
        questions: SignalQuestionBook,
    ) -> None:
        self._calls = calls
        self._files = files
        self._questions = questions

    def is_user_id(self, user_id: str) -> bool:
        """Return whether the text is a phone number, the id of an account, or a group."""
        return is_address(user_id)

    def is_recognised(self, message: OutboundMessage) -> bool:
        """Return False: a repeated call gets another time, and is another message."""
        return False

    def split(self, message: OutboundMessage) -> Sequence[SignalMessagePart]:
        """Return the parts of a message."""
        return split_message(message)

    def split_note(self, text: str) -> Sequence[SignalMessagePart]:
        """Return the parts of a note."""
        return split_note(text)

    def label(self, part: SignalMessagePart, language: str) -> SignalMessagePart:
        """Return the part with a label."""
        return label_repeated(part, language)

    def file_of(self, part: SignalMessagePart) -> Attachment | None:
        """Return the file of a part."""
        return part.file

    def has_text(self, part: SignalMessagePart) -> bool:
        """Return whether the part is a text."""
        return part.file is None

    async def send(self, part: SignalMessagePart, target: PartTarget) -> str:
        """Send a text; the choices of a question are recorded before the user can see them."""
        choices = None
        if part.buttons:
            choices = await self._questions.open(target.key, target.user_id, part.buttons)
            part = add_choices(part, choices, target.language)
        message_id = await self._calls.send(
            target.user_id, part, deadline=target.deadline, reply_to=_reply_target(target)
        )
        # A note of Choir does not ask for numbers.
        if target.outbox_id:
            await self._questions.note_message(target.user_id, except_key=target.key)
        if choices is not None:
            await self._questions.note_sent(target.key, message_id)
        return message_id

    async def send_file(self, part: SignalMessagePart, target: PartTarget) -> str:
        """Send a file with its text; raises as `fetch_upload` and `SignalMessageCalls.send`."""
        if part.file is None:
            return await self.send(part, target)
        async with fetch_upload(self._files, target.outbox_id, part.file) as upload:
            message_id = await self._calls.send(
                target.user_id,
                part,
                deadline=target.deadline,
                reply_to=_reply_target(target),
                file=upload,
            )
        await self._questions.note_message(target.user_id)
        return message_id

    async def edit(self, part: SignalMessagePart, message_id: str, target: PartTarget) -> None:
        """Edit an earlier message; its choices are closed before the user can see that."""
        await self._questions.close(message_id)
        if part.buttons:
            choices = await self._questions.open(target.key, target.user_id, part.buttons)
            part = add_choices(part, choices, target.language)
        await self._calls.edit(target.user_id, message_id, part, deadline=target.deadline)
        if part.buttons:
            await self._questions.note_sent(target.key, message_id)

    async def report_lost_file(
        self, part: SignalMessagePart, target: PartTarget, sentence: str
    ) -> str:
        """Send a sentence about a file instead of it, with its text."""
        (sorry, *_) = split_note(f"{sentence}\n")
        return await self.send(replace(sorry, styled=(*sorry.styled, *part.styled)), target)


def _reply_target(target: PartTarget) -> str | None:
    """Return the message to which a part refers: only the first part does."""
    return target.reply_to if target.number == 0 else None
