"""Delivery of a message to Telegram in parts: none is dropped, and a possible repetition is labelled.

Called by `channel`, and by `notes`. The number of parts that have arrived is kept in memory and by
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

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.attachments import AttachmentKind, Button
from choir_common.wire.messages import OutboundMessage, PartlySent, Receipt
from choir_gateway.channels.port import Neighbours
from choir_gateway.channels.telegram.calls import NO_PREVIEW, Call, RefusedError, make
from choir_gateway.channels.telegram.chunks import LIMIT, split
from choir_gateway.channels.telegram.pace import Pace
from choir_gateway.channels.telegram.parcels import (
    REPEATED,
    File,
    Parcel,
    Words,
    doubtful,
    doubtful_words,
    lay_out,
)
from choir_gateway.channels.telegram.styled import plain, to_html, unstyled
from choir_gateway.channels.telegram.upload import fetched, upload

log = structlog.get_logger("choir.gateway.telegram")

# Returns the call that sends a text in a parse mode.
WordsCall = Callable[[str, str | None], Call]

# Below the outbox's own deadline for a delivery, so that the outbox receives the error of a rate
# limit.
PATIENCE_S = 45.0
# Nobody repeats a note, so it is tried for longer; only the next note waits for it.
NOTE_PATIENCE_S = 300.0
NOTE_AGAIN_S = 1.0
REMEMBERED = 1000
# Files are in the gateway's temporary directory while they are sent.
FILES_AT_ONCE = 2
# If the connection breaks this often, give up the file: each attempt may have reached the user
# nevertheless.
TRIES_OF_A_FILE = 3


@dataclass(slots=True)
class _Delivery:
    """The progress of a message: how many parts arrived, and the id of the message with its text."""

    # One attempt at a time: control may repeat a delivery while a large file is still being sent.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    parcels: int = 0
    doubts: int = 0
    """How often the next part, a file, was sent with an unknown outcome."""
    message_id: str | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """The target of a part, and the deadline for sending it."""

    chat: str
    deadline: float
    reply: ReplyParameters | None = None


class Sending:
    """Sender of the messages and files of one bot."""

    def __init__(self, bot: Bot, neighbours: Neighbours, pace: Pace) -> None:
        self._bot = bot
        self._control = neighbours.control
        self._files = neighbours.files
        self._pace = pace
        self._deliveries: OrderedDict[tuple[int, datetime], _Delivery] = OrderedDict()
        self._slots = asyncio.Semaphore(FILES_AT_ONCE)

    async def deliver(self, message: OutboundMessage, user_id: str) -> Receipt:
        """Send all parts of a message in order.

        Raises Unavailable if the next part was certainly not sent, OutcomeUnknown if it may have
        been.
        """
        if not user_id.isdigit():
            detail = f"{user_id!r} is no Telegram user id; correct the DM {message.dm!r}."
            return Receipt(outbox_id=message.outbox_id, status="undeliverable", detail=detail)
        delivery = self._delivery(message)
        async with delivery.turn:
            try:
                if not delivery.is_whole:
                    await self._go_on(delivery, message, user_id)
            except RefusedError as refusal:
                return Receipt(
                    outbox_id=message.outbox_id, status="undeliverable", detail=refusal.words
                )
        return Receipt(
            outbox_id=message.outbox_id, status="delivered", message_id=delivery.message_id
        )

    async def notify(self, user_id: str, text: str) -> None:
        """Send a note of control to a user, in as many messages as needed; give up after some minutes."""
        deadline = asyncio.get_running_loop().time() + NOTE_PATIENCE_S
        try:
            for part in split(unstyled(text), LIMIT - len(REPEATED)):
                await self._insist(Words(part), _Place(user_id, deadline))
        except (Unavailable, RefusedError) as error:
            log.warning("note not sent", reason=str(error))

    async def _insist(self, words: Words, place: _Place) -> None:
        """Send a text that nobody repeats; raises Unavailable after the deadline."""
        saying = words
        while True:
            try:
                await self._say(saying, place)
            except Unavailable as error:
                wait_s = error.retry_after_s or NOTE_AGAIN_S
                if asyncio.get_running_loop().time() + wait_s > place.deadline:
                    raise
                if isinstance(error, OutcomeUnknown):
                    saying = doubtful_words(words)
                await asyncio.sleep(wait_s)
            else:
                return

    async def _go_on(self, delivery: _Delivery, message: OutboundMessage, user_id: str) -> None:
        """Send the parts of a message that have not arrived yet."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        # Control knows more than this process after a restart of the gateway.
        if message.partly_sent is not None and message.partly_sent.parcels > delivery.parcels:
            delivery.parcels = message.partly_sent.parcels
            delivery.message_id = message.partly_sent.message_id
        parcels, first = lay_out(message), delivery.parcels
        for number in range(first, len(parcels)):
            parcel, place = parcels[number], _Place(user_id, deadline)
            edited = None
            if number == 0:
                place = replace(place, reply=_reply(message))
                edited = message.edits.message_id if message.edits else None
            # Repeating an edit does no harm, so it needs no label.
            if message.maybe_repeated and number == first and edited is None:
                parcel = doubtful(parcel)
            made = await self._send(delivery, message.outbox_id, parcel, place, edited)
            if isinstance(parcel, Words) or delivery.message_id is None:
                delivery.message_id = made
            delivery.parcels, delivery.doubts = number + 1, 0
            if number + 1 < len(parcels):
                await self._note(message, delivery)
        delivery.is_whole = True

    async def _note(self, message: OutboundMessage, delivery: _Delivery) -> None:
        """Store the progress at control, because another process may resume the delivery."""
        await self._control.keep_progress(
            PartlySent(
                outbox_id=message.outbox_id,
                parcels=delivery.parcels,
                message_id=delivery.message_id,
            )
        )

    async def _send(
        self,
        delivery: _Delivery,
        outbox_id: int,
        parcel: Parcel,
        place: _Place,
        edited: str | None,
    ) -> str | None:
        match parcel:
            case Words():
                if edited is not None and await self._edit(parcel, edited, place):
                    return edited
                return await self._say(parcel, place)
            case File():
                return await self._try(delivery, outbox_id, parcel, place)
            case other:
                assert_never(other)

    async def _edit(self, words: Words, message_id: str, place: _Place) -> bool:
        """Edit an earlier message; return False if a new one must be sent instead."""

        def edit(text: str, mode: str | None) -> Call:
            return lambda: self._bot.edit_message_text(
                text,
                int(place.chat),
                int(message_id),
                parse_mode=mode,
                reply_markup=_keyboard(words.buttons),
                link_preview_options=NO_PREVIEW,
            )

        try:
            await self._styled_or_plain(words, edit, place)
        except RefusedError as refusal:
            if refusal.whole:
                raise
            # A message that is too old to be edited, or was deleted by the user, is sent again.
            return "is not modified" in refusal.words
        return True

    async def _say(self, words: Words, place: _Place) -> str | None:
        def say(text: str, mode: str | None) -> Call:
            return lambda: self._bot.send_message(
                int(place.chat),
                text,
                parse_mode=mode,
                reply_markup=_keyboard(words.buttons),
                reply_parameters=place.reply,
                link_preview_options=NO_PREVIEW,
            )

        return await self._styled_or_plain(words, say, place)

    async def _styled_or_plain(self, words: Words, call: WordsCall, place: _Place) -> str | None:
        styled = any(run.marks for run in words.styled)
        if styled:
            try:
                return await self._make(call(to_html(words.styled), "HTML"), place)
            except RefusedError as refusal:
                # Telegram's error for HTML that it cannot parse; then send the text without marks.
                if "parse entities" not in refusal.words:
                    raise
                log.warning("formatting refused", reason=refusal.words)
        return await self._make(call(plain(words.styled), None), place)

    async def _try(
        self, delivery: _Delivery, outbox_id: int, parcel: File, place: _Place
    ) -> str | None:
        """Send a file; after several attempts with an unknown outcome, send a notice instead."""
        if delivery.doubts >= TRIES_OF_A_FILE:
            why = f"the connection broke or was too slow {delivery.doubts} times; perhaps it has arrived"
            return await self._say_lost(outbox_id, parcel, place, why)
        async with self._slots:
            try:
                return await self._bring(outbox_id, parcel, place)
            except (OutcomeUnknown, asyncio.CancelledError):
                # Cancelled means that it took longer than control waits.
                delivery.doubts += 1
                raise

    async def _bring(self, outbox_id: int, parcel: File, place: _Place) -> str | None:
        """Send a file as its kind or as a document; send a notice if Telegram refuses both."""
        try:
            return await self._upload(outbox_id, parcel, place)
        except RefusedError as refusal:
            if refusal.whole:
                raise
            return await self._say_lost(outbox_id, parcel, place, refusal.words)

    async def _say_lost(self, outbox_id: int, parcel: File, place: _Place, why: str) -> str | None:
        log.warning("file not sent", outbox_id=outbox_id, reason=why)
        name = parcel.attachment.name
        sorry = unstyled(f"The file {name} could not be sent: {why.rstrip('.')}.\n")
        return await self._say(Words((*sorry, *parcel.caption)), place)

    async def _upload(self, outbox_id: int, parcel: File, place: _Place) -> str | None:
        attachment = parcel.attachment

        def way(kind: AttachmentKind) -> Call:
            return lambda: upload(
                self._bot, int(place.chat), attachment, kind, spool, parcel.caption, place.reply
            )

        async with fetched(self._files, outbox_id, attachment) as spool:
            if attachment.kind != "document":
                try:
                    return await self._make(way(attachment.kind), place)
                except RefusedError as refusal:
                    if refusal.whole:
                        raise
                    log.info("sent as a document", outbox_id=outbox_id, reason=refusal.words)
            return await self._make(way("document"), place)

    async def _make(self, call: Call, place: _Place) -> str | None:
        return await make(call, self._pace, place.chat, place.deadline)

    def _delivery(self, message: OutboundMessage) -> _Delivery:
        # The time is part of the key: a restored database assigns ids a second time.
        key = (message.outbox_id, message.at)
        found = self._deliveries.setdefault(key, _Delivery())
        while len(self._deliveries) > REMEMBERED:
            self._deliveries.popitem(last=False)
        return found


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
