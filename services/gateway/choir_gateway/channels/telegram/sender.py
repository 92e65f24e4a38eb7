"""The calls that send the parts of a message to Telegram; `channels.delivery` decides when."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import structlog
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters

from choir_common.clients.control import OutboxFilesClient
from choir_common.wire.attachments import Attachment, AttachmentKind, Button
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.delivery import PartTarget
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.formatting.chunks import split_text
from choir_gateway.channels.formatting.styled import make_own, plain_text
from choir_gateway.channels.labels import LABEL_ROOM
from choir_gateway.channels.telegram.addresses import (
    ChatAddress,
    chat_of,
    parse_chat,
    parse_message_id,
)
from choir_gateway.channels.telegram.api_call import (
    NO_PREVIEW,
    Call,
    RateLimiter,
    call_telegram,
)
from choir_gateway.channels.telegram.files import fetch_upload, upload_file
from choir_gateway.channels.telegram.html import LIMIT, to_html
from choir_gateway.channels.telegram.parts import (
    FilePart,
    MessagePart,
    TextPart,
    label_repeated,
    split_message,
)

log = structlog.get_logger("choir.gateway.telegram")

# Returns the call that sends a text in a parse mode.
TextCall = Callable[[str, str | None], Call]


class TelegramPartSender:
    """Sender of the texts and files of one bot; implements `PartSender`."""

    messenger: ClassVar[str] = "Telegram"
    recognition_s: ClassVar[float] = 0.0

    def __init__(self, bot: Bot, *, files: OutboxFilesClient, rate_limiter: RateLimiter) -> None:
        self._bot = bot
        self._files = files
        self._rate_limiter = rate_limiter

    def is_user_id(self, user_id: str) -> bool:
        """Return whether the text is the address of a chat."""
        return parse_chat(user_id) is not None

    def is_recognised(self, message: OutboundMessage) -> bool:
        """Return False: only a process that knows its own attempts can tell."""
        return False

    def split(self, message: OutboundMessage) -> Sequence[MessagePart]:
        """Return the parts of a message."""
        return split_message(message)

    def split_note(self, text: str) -> Sequence[MessagePart]:
        """Return the parts of a note."""
        limit = LIMIT - LABEL_ROOM
        return [TextPart(part) for part in split_text(make_own(text), limit)]

    def label(self, part: MessagePart, language: str) -> MessagePart:
        """Return the part with a label."""
        return label_repeated(part, language)

    def file_of(self, part: MessagePart) -> Attachment | None:
        """Return the file of a part."""
        return part.attachment if isinstance(part, FilePart) else None

    def has_text(self, part: MessagePart) -> bool:
        """Return whether the part is a text message."""
        return isinstance(part, TextPart)

    async def send(self, part: MessagePart, target: PartTarget) -> str | None:
        """Send a text; raises as `call_telegram`."""
        text = part if isinstance(part, TextPart) else TextPart(part.caption)

        place = _find_place(target)

        def say(content: str, mode: str | None) -> Call:
            return lambda: self._bot.send_message(
                place.chat_id,
                content,
                message_thread_id=place.topic,
                parse_mode=mode,
                reply_markup=_keyboard(text.buttons),
                reply_parameters=_reply(target),
                link_preview_options=NO_PREVIEW,
            )

        return await self._styled_or_plain(text, say, target)

    async def edit(self, part: MessagePart, message_id: str, target: PartTarget) -> None:
        """Edit an earlier message; raises as `call_telegram`."""
        text = part if isinstance(part, TextPart) else TextPart(part.caption)

        def change(content: str, mode: str | None) -> Call:
            return lambda: self._bot.edit_message_text(
                content,
                _find_place(target).chat_id,
                int(message_id),
                parse_mode=mode,
                reply_markup=_keyboard(text.buttons),
                link_preview_options=NO_PREVIEW,
            )

        try:
            await self._styled_or_plain(text, change, target)
        except RefusedError as refusal:
            if "is not modified" not in refusal.text:
                raise

    async def send_file(self, part: MessagePart, target: PartTarget) -> str | None:
        """Send a file as its kind or as a document; raises as `fetch_upload` and `call_telegram`."""
        if isinstance(part, TextPart):
            return await self.send(part, target)
        attachment = part.attachment

        def call(kind: AttachmentKind) -> Call:
            return lambda: upload_file(
                self._bot,
                _find_place(target),
                attachment,
                kind,
                spool,
                part.caption,
                _reply(target),
            )

        async with fetch_upload(self._files, target.outbox_id, attachment) as spool:
            if attachment.kind != "document":
                try:
                    return await self._call(call(attachment.kind), target)
                except RefusedError as refusal:
                    if refusal.blocks_user:
                        raise
                    log.info("sent as a document", outbox_id=target.outbox_id, error=refusal.text)
            return await self._call(call("document"), target)

    async def report_lost_file(
        self, part: MessagePart, target: PartTarget, sentence: str
    ) -> str | None:
        """Send a sentence about a file instead of it, with its caption."""
        caption = part.caption if isinstance(part, FilePart) else ()
        sorry = make_own(f"{sentence}\n")
        return await self.send(TextPart((*sorry, *caption)), target)

    async def _styled_or_plain(
        self, part: TextPart, call: TextCall, target: PartTarget
    ) -> str | None:
        styled = any(run.marks for run in part.styled)
        if styled:
            try:
                return await self._call(call(to_html(part.styled), "HTML"), target)
            except RefusedError as refusal:
                # Telegram's error for HTML that it cannot parse; then send the text without marks.
                if "parse entities" not in refusal.text:
                    raise
                log.warning("formatting refused", error=refusal.text)
        return await self._call(call(plain_text(part.styled), None), target)

    async def _call(self, call: Call, target: PartTarget) -> str | None:
        return await call_telegram(call, self._rate_limiter, target.user_id, target.deadline)


def _keyboard(buttons: tuple[Button, ...]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    row = [InlineKeyboardButton(button.label, callback_data=button.data) for button in buttons]
    return InlineKeyboardMarkup([row])


def _reply(target: PartTarget) -> ReplyParameters | None:
    """Return the reply target, so that the first part is below the user's message if that still exists."""
    question = parse_message_id(target.reply_to)
    if target.number != 0 or question is None:
        return None
    return ReplyParameters(question.message_id, allow_sending_without_reply=True)


def _find_place(target: PartTarget) -> ChatAddress:
    """Return the chat, and in a group the topic: that of the conversation, or else of the question."""
    chat, question = chat_of(target.user_id), parse_message_id(target.reply_to)
    if not chat.is_group or chat.topic is not None or question is None:
        return chat
    return ChatAddress(chat.chat_id, question.topic)
