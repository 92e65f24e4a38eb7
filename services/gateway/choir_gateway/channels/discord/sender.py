"""The calls that send the parts of a message to Discord; `channels.delivery` decides when.

Each part has a nonce, by which Discord recognises a repetition for a few minutes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from choir_common.clients.control import OutboxFilesClient
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.delivery import PartTarget
from choir_gateway.channels.discord.files import fetch_upload
from choir_gateway.channels.discord.message_calls import DiscordMessageCalls
from choir_gateway.channels.discord.parts import (
    DiscordMessagePart,
    label_repeated,
    split_message,
    split_note,
)
from choir_gateway.channels.discord.places import (
    address_of_answer,
    is_address,
    parse_message_id,
)


class DiscordPartSender:
    """Sender of the texts and files of one bot; implements `PartSender`."""

    messenger: ClassVar[str] = "Discord"
    recognition_s: ClassVar[float] = 120.0
    """Discord documents "the past few minutes"; within these no label is needed."""

    def __init__(self, calls: DiscordMessageCalls, files: OutboxFilesClient) -> None:
        self._calls = calls
        self._files = files

    def is_user_id(self, user_id: str) -> bool:
        """Return whether the text is the address of a user or a channel."""
        return is_address(user_id)

    def is_recognised(self, message: OutboundMessage) -> bool:
        """Return False: only a process that knows its own attempts can tell."""
        return False

    def split(self, message: OutboundMessage) -> Sequence[DiscordMessagePart]:
        """Return the parts of a message."""
        return split_message(message)

    def split_note(self, text: str) -> Sequence[DiscordMessagePart]:
        """Return the parts of a note."""
        return split_note(text)

    def label(self, part: DiscordMessagePart, language: str) -> DiscordMessagePart:
        """Return the part with a label."""
        return label_repeated(part, language)

    def file_of(self, part: DiscordMessagePart) -> Attachment | None:
        """Return the file of a part."""
        return part.file

    def has_text(self, part: DiscordMessagePart) -> bool:
        """Return whether the part has a text."""
        return bool(part.text)

    async def send(self, part: DiscordMessagePart, target: PartTarget) -> str:
        """Send a text; raises as `DiscordMessageCalls.send`."""
        return await self._calls.send(
            _address(target),
            part,
            deadline=target.deadline,
            nonce=target.key,
            reply_to=_reply(target),
        )

    async def send_file(self, part: DiscordMessagePart, target: PartTarget) -> str:
        """Send a file, which may have a text; raises as `fetch_upload` and `DiscordMessageCalls.send`."""
        if part.file is None:
            return await self.send(part, target)
        async with fetch_upload(self._files, target.outbox_id, part.file) as spool:
            return await self._calls.send(
                _address(target),
                part,
                deadline=target.deadline,
                nonce=target.key,
                reply_to=_reply(target),
                file=spool,
            )

    async def edit(self, part: DiscordMessagePart, message_id: str, target: PartTarget) -> None:
        """Edit a message; raises as `DiscordMessageCalls.edit`."""
        await self._calls.edit(_address(target), message_id, part, deadline=target.deadline)

    async def report_lost_file(
        self, part: DiscordMessagePart, target: PartTarget, sentence: str
    ) -> str:
        """Send a sentence about a file, and the text of its part."""
        (sorry, *_) = split_note(sentence)
        if not part.text:
            return await self.send(replace(part, text=sorry.text, file=None), target)
        await self.send(sorry, replace(target, key=f"{target.key[:-1]}x"))
        return await self.send(replace(part, file=None), target)


def _reply(target: PartTarget) -> str | None:
    """Return the id of the message to reply to, for the first part; None if it is not Discord's."""
    return parse_message_id(target.reply_to) if target.number == 0 else None


def _address(target: PartTarget) -> str:
    return address_of_answer(target.user_id, target.reply_to)
