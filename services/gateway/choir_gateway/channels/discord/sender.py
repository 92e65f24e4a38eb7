"""Delivery of a message to Discord in parts: none is dropped, and a possible repetition is labelled.

The number of parts that have arrived is kept in memory and by control, so that a repeated delivery resumes
after them. Each part has a nonce, by which Discord recognises a repetition for a few minutes.
"""

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.messages import DeliveryProgress, DeliveryReceipt, OutboundMessage
from choir_gateway.channels.discord.files import fetch_upload
from choir_gateway.channels.discord.message_calls import MessageCalls, make_nonce
from choir_gateway.channels.discord.parts import (
    MessagePart,
    label_repeated,
    split_message,
    split_note,
)
from choir_gateway.channels.file_transfer import RefusedError

log = structlog.get_logger("choir.gateway.discord")

# Below the outbox's own deadline for a delivery, so that the outbox receives the error of a rate
# limit.
SEND_TIMEOUT_S = 45.0
NOTE_TIMEOUT_S = 300.0
NOTE_RETRY_S = 1.0
MAX_DELIVERIES = 1000
CONCURRENT_FILES = 2
MAX_FILE_ATTEMPTS = 3
NONCE_LASTS_S = 120.0
"""Discord documents "the past few minutes"; within these no label is needed."""


@dataclass(slots=True)
class _PartProgress:
    """The progress of a message: how many parts arrived, and the id of the message with its text."""

    # One attempt at a time: control may repeat a delivery while a large file is still being sent.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    parts: int = 0
    unknown_outcomes: int = 0
    """How often the next part, with a file, was sent with an unknown outcome."""
    attempted_at: float | None = None
    """When this process sent the next part first, in the event loop's time."""
    is_labelled: bool = False
    """Whether an attempt that Discord would not recognise came before."""
    message_id: str | None = None
    is_complete: bool = False

    def begin_part(self, number: int) -> None:
        """Record that all parts before this number have arrived."""
        self.parts, self.unknown_outcomes = number, 0
        self.attempted_at, self.is_labelled = None, False

    def is_in_doubt(self, maybe_repeated: bool) -> bool:
        """Record an attempt; return whether an earlier one may have arrived unrecognisably."""
        now = _now()
        is_recent = self.attempted_at is not None and now - self.attempted_at < NONCE_LASTS_S
        if not is_recent:
            self.attempted_at = now
            self.is_labelled = self.is_labelled or maybe_repeated
        return self.is_labelled


@dataclass(frozen=True, slots=True)
class _PartTarget:
    """The target of a part, and the deadline for sending it."""

    user_id: str
    deadline: float
    nonce: str
    reply_to: str | None = None


class DiscordSender:
    """Sender of the messages and files of one bot."""

    def __init__(
        self, calls: MessageCalls, *, control: ControlClient, files: OutboxFilesClient
    ) -> None:
        self._calls = calls
        self._control = control
        self._files = files
        self._deliveries: OrderedDict[tuple[int, datetime], _PartProgress] = OrderedDict()
        self._slots = asyncio.Semaphore(CONCURRENT_FILES)

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send all parts of a message in order.

        Raises Unavailable if the next part was certainly not sent, OutcomeUnknown if it may have
        been.
        """
        if not user_id.isdecimal():
            detail = f"{user_id!r} is not a Discord user id; correct the DM {message.dm!r}."
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
        deadline = _now() + NOTE_TIMEOUT_S
        try:
            for part in split_note(text):
                await self._send_note_part(user_id, part, secrets.token_hex(12), deadline)
        except (Unavailable, RefusedError) as error:
            log.warning("note not sent", error=str(error))

    async def _send_note_part(
        self, user_id: str, part: MessagePart, nonce: str, deadline: float
    ) -> None:
        """Send a text that nobody repeats; raises Unavailable after the deadline."""
        while True:
            attempt_until = _now() + SEND_TIMEOUT_S
            try:
                await self._calls.send(user_id, part, deadline=attempt_until, nonce=nonce)
            except Unavailable as error:
                wait_s = error.retry_after_s or NOTE_RETRY_S
                if _now() + wait_s > deadline:
                    raise
                await asyncio.sleep(wait_s)
            else:
                return

    async def _resume(
        self, delivery: _PartProgress, message: OutboundMessage, user_id: str
    ) -> None:
        """Send the parts of a message that have not arrived yet."""
        deadline = _now() + SEND_TIMEOUT_S
        # Control knows more than this process after a restart of the gateway.
        if message.partly_sent is not None and message.partly_sent.parcels > delivery.parts:
            delivery.parts = message.partly_sent.parcels
            delivery.message_id = message.partly_sent.message_id
        parts, first = split_message(message), delivery.parts
        for number in range(first, len(parts)):
            nonce = make_nonce(message.gateway, message.outbox_id, message.at, number)
            target = _PartTarget(user_id, deadline, nonce, _reply(message) if number == 0 else None)
            edited = message.edits.message_id if message.edits and number == 0 else None
            part = parts[number]
            # Repeating an edit does no harm.
            if edited is None and delivery.is_in_doubt(number == first and message.maybe_repeated):
                part = label_repeated(part)
            sent_id = await self._send(delivery, message.outbox_id, part, target, edited)
            if parts[number].text or delivery.message_id is None:
                delivery.message_id = sent_id
            delivery.begin_part(number + 1)
            if number + 1 < len(parts):
                await self._store_progress(message, delivery)
        delivery.is_complete = True

    async def _store_progress(self, message: OutboundMessage, delivery: _PartProgress) -> None:
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
        delivery: _PartProgress,
        outbox_id: int,
        part: MessagePart,
        target: _PartTarget,
        edited: str | None,
    ) -> str:
        if edited is not None and await self._edit(part, edited, target):
            return edited
        if part.file is None:
            return await self._send_part(part, target)
        if delivery.unknown_outcomes >= MAX_FILE_ATTEMPTS:
            why = (
                f"the connection failed or timed out {delivery.unknown_outcomes} times; it may "
                "have arrived"
            )
            return await self._report_lost_file(part, target, why)
        async with self._slots:
            try:
                async with fetch_upload(self._files, outbox_id, part.file) as spool:
                    return await self._calls.send(
                        target.user_id,
                        part,
                        deadline=target.deadline,
                        nonce=target.nonce,
                        reply_to=target.reply_to,
                        file=spool,
                    )
            except (OutcomeUnknown, asyncio.CancelledError):
                # Cancelled means that it took longer than control waits.
                delivery.unknown_outcomes += 1
                raise
            except RefusedError as refusal:
                if refusal.blocks_user:
                    raise
                return await self._report_lost_file(part, target, refusal.text)

    async def _report_lost_file(self, part: MessagePart, target: _PartTarget, why: str) -> str:
        name = part.file.name if part.file else "?"
        log.warning("file not sent", name=name, reason=why)
        (sorry, *_) = split_note(f"The file {name} could not be sent: {why.rstrip('.')}.")
        if not part.text:
            return await self._send_part(replace(part, text=sorry.text, file=None), target)
        await self._send_part(sorry, replace(target, nonce=f"{target.nonce[:-1]}x"))
        return await self._send_part(replace(part, file=None), target)

    async def _edit(self, part: MessagePart, message_id: str, target: _PartTarget) -> bool:
        """Edit an earlier message; return False if a new one must be sent instead."""
        try:
            await self._calls.edit(target.user_id, message_id, part, deadline=target.deadline)
        except RefusedError as refusal:
            if refusal.blocks_user:
                raise
            # A message that was deleted is sent again.
            return False
        return True

    async def _send_part(self, part: MessagePart, target: _PartTarget) -> str:
        return await self._calls.send(
            target.user_id,
            part,
            deadline=target.deadline,
            nonce=target.nonce,
            reply_to=target.reply_to,
        )

    def _delivery(self, message: OutboundMessage) -> _PartProgress:
        # The time is part of the key: a restored database assigns ids a second time.
        key = (message.outbox_id, message.at)
        state = self._deliveries.setdefault(key, _PartProgress())
        while len(self._deliveries) > MAX_DELIVERIES:
            self._deliveries.popitem(last=False)
        return state


def _reply(message: OutboundMessage) -> str | None:
    """Return the id of the message to reply to, if it is Discord's."""
    reply_to = message.reply_to
    return reply_to if reply_to is not None and reply_to.isdecimal() else None


def _now() -> float:
    return asyncio.get_running_loop().time()
