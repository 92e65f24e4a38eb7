"""Send a message in as many parcels as it needs; never drop the tail, never repeat in silence.

Called by channel.py, and by notes.py for what control notes. What of a message was surely sent is
remembered, and control keeps how many parcels that are: a delivery that is tried again goes on where it
stopped, also after a restart, and one that is whole is not sent again.
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

# makes a call that says a text, in a parse mode
WordsCall = Callable[[str, str | None], Call]

# below the outbox's own deadline for a delivery, so that it hears of a rate limit in words
PATIENCE_S = 45.0
# nobody asks for a note again, so it has longer; what waits for it is only the next one
NOTE_PATIENCE_S = 300.0
NOTE_AGAIN_S = 1.0
REMEMBERED = 1000
# files lie in the gateway's temporary directory while they are sent
FILES_AT_ONCE = 2
# a file whose line breaks so often is too much for it: each time its user may have got it all the same
TRIES_OF_A_FILE = 3


@dataclass(slots=True)
class _Delivery:
    """How far a message is: its parcels that surely arrived, and which message bears its words."""

    # one attempt at a time: control may ask again while a large file is still on its way
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    parcels: int = 0
    doubts: int = 0
    """How often the next one, a file, was sent without anybody knowing what became of it."""
    message_id: str | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a parcel goes, and until when it may be tried."""

    chat: str
    deadline: float
    reply: ReplyParameters | None = None


class Sending:
    """Outgoing words and files of one bot."""

    def __init__(self, bot: Bot, neighbours: Neighbours, pace: Pace) -> None:
        self._bot = bot
        self._control = neighbours.control
        self._files = neighbours.files
        self._pace = pace
        self._deliveries: OrderedDict[tuple[int, datetime], _Delivery] = OrderedDict()
        self._slots = asyncio.Semaphore(FILES_AT_ONCE)

    async def deliver(self, message: OutboundMessage, user_id: str) -> Receipt:
        """Send all parcels of a message in order.

        Raises Unavailable when the next one was surely not sent, OutcomeUnknown when it may have been.
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
        """Tell a user what control notes, in as many messages as it needs; gives up after some minutes."""
        deadline = asyncio.get_running_loop().time() + NOTE_PATIENCE_S
        try:
            for part in split(unstyled(text), LIMIT - len(REPEATED)):
                await self._insist(Words(part), _Place(user_id, deadline))
        except (Unavailable, RefusedError) as error:
            log.warning("note not sent", reason=str(error))

    async def _insist(self, words: Words, place: _Place) -> None:
        """Say words that nobody asks for again; raises Unavailable when the deadline has come."""
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
        """Send what of a message has not arrived yet."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
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
            # an edit may be made as often as one likes, so it is never in doubt
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
        """Have control keep how far a message is: whoever goes on with it may be another process."""
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
        """Put words in the place of earlier ones; tell whether they stand there now."""

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
            # what is too old to be edited, or was deleted by the user, is said anew
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
                if "parse entities" not in refusal.words:
                    raise
                log.warning("formatting refused", reason=refusal.words)
        return await self._make(call(plain(words.styled), None), place)

    async def _try(
        self, delivery: _Delivery, outbox_id: int, parcel: File, place: _Place
    ) -> str | None:
        """Send a file, a few times if need be; then say what became of it instead."""
        if delivery.doubts >= TRIES_OF_A_FILE:
            why = f"the connection broke or was too slow {delivery.doubts} times; perhaps it has arrived"
            return await self._say_lost(outbox_id, parcel, place, why)
        async with self._slots:
            try:
                return await self._bring(outbox_id, parcel, place)
            except (OutcomeUnknown, asyncio.CancelledError):
                # cancelled is what takes longer than control waits
                delivery.doubts += 1
                raise

    async def _bring(self, outbox_id: int, parcel: File, place: _Place) -> str | None:
        """Send a file; as a document if Telegram does not take it as more, else say what became of it."""
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
        # with its time: a database that was put back gives numbers a second time
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
    """Return what hangs words below the user's message, as long as that is still there."""
    if message.reply_to is None or not message.reply_to.isdigit():
        return None
    return ReplyParameters(int(message.reply_to), allow_sending_without_reply=True)
