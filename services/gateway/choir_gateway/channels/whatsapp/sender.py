"""The calls that send the parts of a message to WhatsApp; `channels.delivery` decides when.

After each call the sender waits a few seconds for Meta's status: it tells of errors that come after the
response, keeps the parts in order, and shows that a part arrived although its response was lost.
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.model import JsonObject
from choir_gateway.channels.delivery import PartTarget
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.whatsapp.cloud_api import (
    CLOSED_PAUSE_S,
    CLOSED_TEXT,
    WINDOW_CLOSED,
    CloudApi,
    CloudApiError,
)
from choir_gateway.channels.whatsapp.files import fetch_upload
from choir_gateway.channels.whatsapp.journal import MessageJournal
from choir_gateway.channels.whatsapp.parts import (
    FileMessagePart,
    MessagePart,
    TextMessagePart,
    label_repeated,
    make_text_body,
    split_message,
    split_note,
)
from choir_gateway.channels.whatsapp.rate_limits import NumberRateLimiter
from choir_gateway.channels.whatsapp.recipients import address_to, is_user_id
from choir_gateway.channels.whatsapp.statuses import StatusBoard, StatusTag

CARD_TIMEOUT_S = 45.0
INVALID_PARAMETER = frozenset({100, 131009})


class WhatsAppPartSender:
    """Sender of the texts and files of one business number; implements `PartSender`."""

    messenger: ClassVar[str] = "WhatsApp"
    recognition_s: ClassVar[float] = 0.0

    def __init__(
        self,
        api: CloudApi,
        *,
        journal: MessageJournal,
        statuses: StatusBoard,
        files: OutboxFilesClient,
        status_timeout_s: float,
    ) -> None:
        self._api = api
        self._journal = journal
        self._statuses = statuses
        self._files = files
        self._status_timeout_s = status_timeout_s
        self._rate_limiter = NumberRateLimiter()
        self.waiting: dict[str, datetime] = {}
        """The users for whom messages wait until they write, and since when."""

    def is_user_id(self, user_id: str) -> bool:
        """Return whether WhatsApp could have a user of this id."""
        return is_user_id(user_id)

    def is_recognised(self, message: OutboundMessage) -> bool:
        """Return False: a part that arrived after all is recognised by its status."""
        return False

    def split(self, message: OutboundMessage) -> Sequence[MessagePart]:
        """Return the parts of a message."""
        return split_message(message)

    def split_note(self, text: str) -> Sequence[MessagePart]:
        """Return the parts of a note."""
        return split_note(text)

    def label(self, part: MessagePart, language: str) -> MessagePart:
        """Return the part with a label."""
        return label_repeated(part, language)

    def file_of(self, part: MessagePart) -> Attachment | None:
        """Return the file of a part."""
        return part.attachment if isinstance(part, FileMessagePart) else None

    def has_text(self, part: MessagePart) -> bool:
        """Return whether the part is a text."""
        return isinstance(part, TextMessagePart)

    async def send(self, part: MessagePart, target: PartTarget) -> str:
        """Send a text, unless an earlier attempt has arrived after all.

        Raises RefusedError, Unavailable if it was certainly not sent or the user has not written recently,
        OutcomeUnknown if it may have been sent.
        """
        if isinstance(part, FileMessagePart):
            return await self.send_file(part, target)
        return self._find_arrived(target) or await self._call(
            make_text_body(part, target.language), target
        )

    async def send_file(self, part: MessagePart, target: PartTarget) -> str:
        """Send a file with its caption; raises as `send`."""
        if isinstance(part, TextMessagePart):
            return await self.send(part, target)
        arrived_id = self._find_arrived(target)
        if arrived_id is not None:
            return arrived_id
        async with fetch_upload(self._files, target.outbox_id, part) as (file, upload):
            try:
                media_id = await self._api.upload(upload)
            except CloudApiError as error:
                raise error.interpret() from error
        return await self._call(file.make_body(media_id), target)

    async def edit(self, part: MessagePart, message_id: str, target: PartTarget) -> None:
        """Raise RefusedError: WhatsApp has no edits."""
        raise RefusedError(_("WhatsApp has no edits."))

    async def report_lost_file(self, part: MessagePart, target: PartTarget, sentence: str) -> str:
        """Send a sentence about a file, and its caption."""
        (sorry, *_) = split_note(sentence)
        caption = part.caption if isinstance(part, FileMessagePart) else part.text
        text = f"{sorry.text}\n{caption}" if caption else sorry.text
        return await self.send(TextMessagePart(text), target)

    async def send_card(self, user_id: str, part: TextMessagePart) -> str:
        """Send the message of a progress card, once; raises as `send`."""
        return await self._call(
            make_text_body(part), PartTarget(user_id, _now() + CARD_TIMEOUT_S, "")
        )

    def _find_arrived(self, target: PartTarget) -> str | None:
        """Return the id of a part that has arrived; raises Unavailable if it may not be sent now."""
        if target.waits_since is None:
            return None
        arrived_id = self._statuses.taken_id(target.key)
        if arrived_id is None and self._journal.last_message(target.user_id) is None:
            self.waiting.setdefault(target.user_id, target.waits_since)
            raise Unavailable(CLOSED_TEXT, retry_after_s=CLOSED_PAUSE_S)
        if arrived_id is None and _now() > target.deadline:
            raise Unavailable(_("The rest of the message follows."), retry_after_s=0.1)
        return arrived_id

    async def _call(self, content: JsonObject, target: PartTarget) -> str:
        """Send one message and wait for its first status; return its id."""
        await self._rate_limiter.wait(target.user_id, target.deadline)
        is_note = target.waits_since is None
        key = None if is_note else StatusTag(target.key, secrets.token_hex(4))
        body: JsonObject = {**address_to(target.user_id), **content}
        if key is not None:
            body["biz_opaque_callback_data"] = str(key)
        reply_to = _reply(target)
        if reply_to is not None:
            body["context"] = {"message_id": reply_to}
        try:
            return await self._send_once(body, key)
        except CloudApiError as error:
            if error.code == WINDOW_CLOSED:
                self._journal.close_window(target.user_id)
            if error.code in INVALID_PARAMETER and reply_to is not None:
                # The message to which it refers is gone or too old.
                return await self._call(content, replace(target, reply_to=None))
            raise error.interpret() from error

    async def _send_once(self, body: JsonObject, key: StatusTag | None) -> str:
        try:
            message_id = await self._api.send(body)
        except OutcomeUnknown:
            # The status of a message that did arrive contains its key.
            arrived_id = await self._statuses.wait(key, self._status_timeout_s) if key else None
            if arrived_id is None:
                raise
            return arrived_id
        if key is not None and await self._statuses.wait(key, self._status_timeout_s) is None:
            # From now on a failure is one of a message that counts as delivered.
            self._statuses.note_success(key, message_id)
        return message_id


def _reply(target: PartTarget) -> str | None:
    """Return the id of the message to refer to, for the first part, if it is WhatsApp's."""
    is_first = target.number == 0 and (target.reply_to or "").startswith("wamid.")
    return target.reply_to if is_first else None


def _now() -> float:
    return asyncio.get_running_loop().time()
