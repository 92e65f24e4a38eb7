"""The calls that send the parts of a message to Slack; `channels.delivery` decides when."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from choir_common.clients.control import OutboxFilesClient
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.delivery import PartTarget
from choir_gateway.channels.slack.addresses import parse_group, parse_message_id
from choir_gateway.channels.slack.files import fetch_upload
from choir_gateway.channels.slack.message_calls import SlackMessageCalls, SlackThread
from choir_gateway.channels.slack.parts import (
    SlackMessagePart,
    label_repeated,
    split_message,
    split_note,
)
from choir_gateway.channels.slack.payloads import TS_PATTERN
from choir_gateway.channels.slack.read_marks import SlackReadMarkStore

USER_ID = re.compile(r"[A-Z0-9]{1,32}")
TS = re.compile(TS_PATTERN)


class SlackPartSender:
    """Sender of the texts and files of one app; implements `PartSender`."""

    messenger: ClassVar[str] = "Slack"
    # Slack has no key by which it recognises a repeated message.
    recognition_s: ClassVar[float] = 0.0

    def __init__(
        self, calls: SlackMessageCalls, *, files: OutboxFilesClient, marks: SlackReadMarkStore
    ) -> None:
        self._calls = calls
        self._files = files
        self._marks = marks

    def is_user_id(self, user_id: str) -> bool:
        """Return whether the text may be a member id, such as U012AB3CD, or the address of a channel."""
        return USER_ID.fullmatch(user_id) is not None or parse_group(user_id) is not None

    def is_recognised(self, message: OutboundMessage) -> bool:
        """Return False: only a process that knows its own attempts can tell."""
        return False

    def split(self, message: OutboundMessage) -> Sequence[SlackMessagePart]:
        """Return the parts of a message."""
        return split_message(message)

    def split_note(self, text: str) -> Sequence[SlackMessagePart]:
        """Return the parts of a note."""
        return split_note(text)

    def label(self, part: SlackMessagePart, language: str) -> SlackMessagePart:
        """Return the part with a label; a file has no text for one."""
        return part if part.file is not None else label_repeated(part, language)

    def file_of(self, part: SlackMessagePart) -> Attachment | None:
        """Return the file of a part."""
        return part.file

    def has_text(self, part: SlackMessagePart) -> bool:
        """Return whether the part is a text."""
        return part.file is None

    async def send(self, part: SlackMessagePart, target: PartTarget) -> str:
        """Send a text; raises as `SlackMessageCalls.send`."""
        return await self._calls.send(
            target.user_id, part, deadline=target.deadline, thread=self._thread(target)
        )

    async def send_file(self, part: SlackMessagePart, target: PartTarget) -> str | None:
        """Send a file; raises as `fetch_upload` and `SlackMessageCalls.send_file`."""
        if part.file is None:
            return await self.send(part, target)
        thread = self._thread(target)
        async with fetch_upload(self._files, target.outbox_id, part.file) as spool:
            await self._calls.send_file(
                target.user_id,
                part.file.name,
                spool,
                deadline=target.deadline,
                # A file cannot be shown in the conversation and in a thread of it.
                thread_ts=thread.ts if thread and not thread.is_broadcast else None,
            )
        return None

    async def edit(self, part: SlackMessagePart, message_id: str, target: PartTarget) -> None:
        """Edit a message; raises as `SlackMessageCalls.edit`."""
        await self._calls.edit(target.user_id, message_id, part, deadline=target.deadline)

    async def report_lost_file(
        self, part: SlackMessagePart, target: PartTarget, sentence: str
    ) -> str:
        """Send a sentence about a file instead of it."""
        (sorry, *_) = split_note(sentence)
        return await self.send(replace(sorry, buttons=part.buttons), target)

    def _thread(self, target: PartTarget) -> SlackThread | None:
        """Return the thread of the user's message, or a new one below an older message.

        In a channel every answer is in a thread, so that the channel stays readable.
        """
        group = parse_group(target.user_id)
        if group is not None:
            question = parse_message_id(target.reply_to)
            root = group.thread or (question.root if question else None)
            return SlackThread(root) if root else None
        mark = self._marks.find(target.user_id)
        if mark is not None:
            thread = mark.thread_of(ts=target.reply_to, inbox_id=target.answers)
            if thread is not None:
                return SlackThread(thread)
        if target.reply_to is None or TS.match(target.reply_to) is None:
            return None
        return SlackThread(target.reply_to, is_broadcast=True)
