"""Delivery of a message to Telegram in parts: none is dropped, and a possible repetition is labelled.

The number of parts that have arrived is kept in memory and by
control. A repeated delivery therefore resumes after them, also after a restart, and a complete one
is not sent again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

import structlog
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.attachments import AttachmentKind, Button
from choir_common.wire.messages import DeliveryProgress, DeliveryReceipt, OutboundMessage
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.formatting.chunks import split_text
from choir_gateway.channels.formatting.styled import make_own, plain_text
from choir_gateway.channels.telegram.api_call import (
    NO_PREVIEW,
    Call,
    RateLimiter,
    call_telegram,
)
from choir_gateway.channels.telegram.files import fetch_upload, upload_file
from choir_gateway.channels.telegram.html import LIMIT, to_html
from choir_gateway.channels.telegram.parts import (
    REPEATED_LABEL,
    FilePart,
    MessagePart,
    TextPart,
    label_repeated,
    label_repeated_text,
    split_message,
)

log = structlog.get_logger("choir.gateway.telegram")

# Returns the call that sends a text in a parse mode.
TextCall = Callable[[str, str | None], Call]

# Below the outbox's own deadline for a delivery, so that the outbox receives the error of a rate
# limit.
SEND_TIMEOUT_S = 45.0
# Nobody repeats a note, so it is tried for longer; only the next note waits for it.
NOTE_TIMEOUT_S = 300.0
NOTE_RETRY_S = 1.0
MAX_DELIVERIES = 1000
# Files are in the gateway's temporary directory while they are sent.
CONCURRENT_FILES = 2
# If the connection breaks this often, give up the file: each attempt may have reached the user
# nevertheless.
MAX_FILE_ATTEMPTS = 3


@dataclass(slots=True)
class _DeliveryState:
    """The progress of a message: how many parts arrived, and the id of the message with its text."""

    # One attempt at a time: control may repeat a delivery while a large file is still being sent.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    parts: int = 0
    unknown_outcomes: int = 0
    """How often the next part, a file, was sent with an unknown outcome."""
    message_id: str | None = None
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of a part, and the deadline for sending it."""

    chat: str
    deadline: float
    reply: ReplyParameters | None = None


class MessageSender:
    """Sender of the messages and files of one bot."""

    def __init__(
        self,
        bot: Bot,
        *,
        control: ControlClient,
        files: OutboxFilesClient,
        rate_limiter: RateLimiter,
    ) -> None:
        self._bot = bot
        self._control = control
        self._files = files
        self._rate_limiter = rate_limiter
        self._deliveries: OrderedDict[tuple[int, datetime], _DeliveryState] = OrderedDict()
        self._slots = asyncio.Semaphore(CONCURRENT_FILES)

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send all parts of a message in order.

        Raises Unavailable if the next part was certainly not sent, OutcomeUnknown if it may have
        been.
        """
        if not user_id.isdigit():
            detail = f"{user_id!r} is not a Telegram user id; correct the DM {message.dm!r}."
            return DeliveryReceipt(
                outbox_id=message.outbox_id, status="undeliverable", detail=detail
            )
        delivery = self._delivery(message)
        async with delivery.lock:
            try:
                if not delivery.is_complete:
                    await self._resume(delivery, message, user_id)
            except RefusedError as refusal:
                return DeliveryReceipt(
                    outbox_id=message.outbox_id, status="undeliverable", detail=refusal.text
                )
        return DeliveryReceipt(
            outbox_id=message.outbox_id, status="delivered", message_id=delivery.message_id
        )

    async def send_note(self, user_id: str, text: str) -> None:
        """Send a note of control to a user, in as many messages as needed; give up after some minutes."""
        deadline = asyncio.get_running_loop().time() + NOTE_TIMEOUT_S
        try:
            for part in split_text(make_own(text), LIMIT - len(REPEATED_LABEL)):
                await self._send_with_retries(TextPart(part), _Target(user_id, deadline))
        except (Unavailable, RefusedError) as error:
            log.warning("note not sent", error=str(error))

    async def _send_with_retries(self, part: TextPart, target: _Target) -> None:
        """Send a text that nobody repeats; raises Unavailable after the deadline."""
        attempt = part
        while True:
            try:
                await self._send_text(attempt, target)
            except Unavailable as error:
                wait_s = error.retry_after_s or NOTE_RETRY_S
                if asyncio.get_running_loop().time() + wait_s > target.deadline:
                    raise
                if isinstance(error, OutcomeUnknown):
                    attempt = label_repeated_text(part)
                await asyncio.sleep(wait_s)
            else:
                return

    async def _resume(
        self, delivery: _DeliveryState, message: OutboundMessage, user_id: str
    ) -> None:
        """Send the parts of a message that have not arrived yet."""
        deadline = asyncio.get_running_loop().time() + SEND_TIMEOUT_S
        # Control knows more than this process after a restart of the gateway.
        if message.partly_sent is not None and message.partly_sent.parcels > delivery.parts:
            delivery.parts = message.partly_sent.parcels
            delivery.message_id = message.partly_sent.message_id
        parts, first = split_message(message), delivery.parts
        for number in range(first, len(parts)):
            part, target = parts[number], _Target(user_id, deadline)
            edited = None
            if number == 0:
                target = replace(target, reply=_reply(message))
                edited = message.edits.message_id if message.edits else None
            # Repeating an edit does no harm, so it needs no label.
            if message.maybe_repeated and number == first and edited is None:
                part = label_repeated(part)
            sent_id = await self._send(delivery, message.outbox_id, part, target, edited)
            if isinstance(part, TextPart) or delivery.message_id is None:
                delivery.message_id = sent_id
            delivery.parts, delivery.unknown_outcomes = number + 1, 0
            if number + 1 < len(parts):
                await self._store_progress(message, delivery)
        delivery.is_complete = True

    async def _store_progress(self, message: OutboundMessage, delivery: _DeliveryState) -> None:
        """Store the progress at control, because another process may resume the delivery."""
        await self._control.keep_progress(
            DeliveryProgress(
                outbox_id=message.outbox_id,
                parcels=delivery.parts,
                message_id=delivery.message_id,
            )
        )

    async def _send(
        self,
        delivery: _DeliveryState,
        outbox_id: int,
        part: MessagePart,
        target: _Target,
        edited: str | None,
    ) -> str | None:
        match part:
            case TextPart():
                if edited is not None and await self._edit(part, edited, target):
                    return edited
                return await self._send_text(part, target)
            case FilePart():
                return await self._send_file(delivery, outbox_id, part, target)
            case other:
                assert_never(other)

    async def _edit(self, part: TextPart, message_id: str, target: _Target) -> bool:
        """Edit an earlier message; return False if a new one must be sent instead."""

        def edit(text: str, mode: str | None) -> Call:
            return lambda: self._bot.edit_message_text(
                text,
                int(target.chat),
                int(message_id),
                parse_mode=mode,
                reply_markup=_keyboard(part.buttons),
                link_preview_options=NO_PREVIEW,
            )

        try:
            await self._styled_or_plain(part, edit, target)
        except RefusedError as refusal:
            if refusal.blocks_user:
                raise
            # A message that is too old to be edited, or was deleted by the user, is sent again.
            return "is not modified" in refusal.text
        return True

    async def _send_text(self, part: TextPart, target: _Target) -> str | None:
        def say(text: str, mode: str | None) -> Call:
            return lambda: self._bot.send_message(
                int(target.chat),
                text,
                parse_mode=mode,
                reply_markup=_keyboard(part.buttons),
                reply_parameters=target.reply,
                link_preview_options=NO_PREVIEW,
            )

        return await self._styled_or_plain(part, say, target)

    async def _styled_or_plain(self, part: TextPart, call: TextCall, target: _Target) -> str | None:
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

    async def _send_file(
        self, delivery: _DeliveryState, outbox_id: int, part: FilePart, target: _Target
    ) -> str | None:
        """Send a file; after several attempts with an unknown outcome, send a notice instead."""
        if delivery.unknown_outcomes >= MAX_FILE_ATTEMPTS:
            why = (
                f"the connection failed or timed out {delivery.unknown_outcomes} times; it may "
                "have arrived"
            )
            return await self._report_lost_file(outbox_id, part, target, why)
        async with self._slots:
            try:
                return await self._upload_or_report(outbox_id, part, target)
            except (OutcomeUnknown, asyncio.CancelledError):
                # Cancelled means that it took longer than control waits.
                delivery.unknown_outcomes += 1
                raise

    async def _upload_or_report(
        self, outbox_id: int, part: FilePart, target: _Target
    ) -> str | None:
        """Send a file as its kind or as a document; send a notice if Telegram refuses both."""
        try:
            return await self._upload(outbox_id, part, target)
        except RefusedError as refusal:
            if refusal.blocks_user:
                raise
            return await self._report_lost_file(outbox_id, part, target, refusal.text)

    async def _report_lost_file(
        self, outbox_id: int, part: FilePart, target: _Target, why: str
    ) -> str | None:
        log.warning("file not sent", outbox_id=outbox_id, reason=why)
        name = part.attachment.name
        sorry = make_own(f"The file {name} could not be sent: {why.rstrip('.')}.\n")
        return await self._send_text(TextPart((*sorry, *part.caption)), target)

    async def _upload(self, outbox_id: int, part: FilePart, target: _Target) -> str | None:
        attachment = part.attachment

        def call(kind: AttachmentKind) -> Call:
            return lambda: upload_file(
                self._bot, int(target.chat), attachment, kind, spool, part.caption, target.reply
            )

        async with fetch_upload(self._files, outbox_id, attachment) as spool:
            if attachment.kind != "document":
                try:
                    return await self._call(call(attachment.kind), target)
                except RefusedError as refusal:
                    if refusal.blocks_user:
                        raise
                    log.info("sent as a document", outbox_id=outbox_id, error=refusal.text)
            return await self._call(call("document"), target)

    async def _call(self, call: Call, target: _Target) -> str | None:
        return await call_telegram(call, self._rate_limiter, target.chat, target.deadline)

    def _delivery(self, message: OutboundMessage) -> _DeliveryState:
        # The time is part of the key: a restored database assigns ids a second time.
        key = (message.outbox_id, message.at)
        state = self._deliveries.setdefault(key, _DeliveryState())
        while len(self._deliveries) > MAX_DELIVERIES:
            self._deliveries.popitem(last=False)
        return state


def _keyboard(buttons: tuple[Button, ...]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    row = [InlineKeyboardButton(button.label, callback_data=button.data) for button in buttons]
    return InlineKeyboardMarkup([row])


def _reply(message: OutboundMessage) -> ReplyParameters | None:
    """Return the reply target, so that the text appears below the user's message if that still exists."""
    if message.reply_to is None or not message.reply_to.isdigit():
        return None
    return ReplyParameters(int(message.reply_to), allow_sending_without_reply=True)
