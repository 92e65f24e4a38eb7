"""Delivery of a message in parts: none is dropped, and a possible repetition is labelled.

The number of parts that have arrived is kept in memory and by control. A repeated delivery therefore resumes
after them, also after a restart, and a complete one is not sent again. A messenger's `PartSender` makes the
calls.
"""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import structlog

from choir_common.clients.control import ControlClient
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import ENGLISH, _, translate
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import DeliveryProgress, DeliveryReceipt, OutboundMessage
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.labels import describe_lost_file

log = structlog.get_logger("choir.gateway")

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

PartT = TypeVar("PartT")


class UploadBrokenError(Unavailable):
    """The upload of a file broke off; nothing shows it to the user, so it is repeated without a label."""


@dataclass(frozen=True, slots=True)
class PartTarget:
    """The target of a part, and the deadline for sending it."""

    user_id: str
    deadline: float
    """In the event loop's time."""
    key: str
    """The same for each attempt to send the part: 24 hexadecimal digits."""
    number: int = 0
    """Of the part within its message."""
    outbox_id: int = 0
    reply_to: str | None = None
    """As in `OutboundMessage`."""
    answers: str | None = None
    """As in `OutboundMessage`."""
    waits_since: datetime | None = None
    """The time of the message; None for a note."""
    language: str = ENGLISH
    """As in `OutboundMessage`."""


class PartSender(Protocol[PartT]):
    """The calls of one messenger.

    The methods that send or edit raise RefusedError, Unavailable if certainly nothing was sent,
    OutcomeUnknown if something may have been.
    """

    @property
    def messenger(self) -> str:
        """The messenger's name."""
        ...

    @property
    def recognition_s(self) -> float:
        """How long the messenger recognises a repeated part by the target's key; 0: not at all."""
        ...

    def is_user_id(self, user_id: str) -> bool:
        """Return whether the messenger could have such an id."""
        ...

    def is_recognised(self, message: OutboundMessage) -> bool:
        """Return whether the messenger recognises a repetition, also one of another process."""
        ...

    def split(self, message: OutboundMessage) -> Sequence[PartT]:
        """Return the parts of a message in order, always the same ones."""
        ...

    def split_note(self, text: str) -> Sequence[PartT]:
        """Return the parts of a note of Choir itself."""
        ...

    def label(self, part: PartT, language: str) -> PartT:
        """Return the part with a note that the user may have received it before."""
        ...

    def file_of(self, part: PartT) -> Attachment | None:
        """Return the file of a part."""
        ...

    def has_text(self, part: PartT) -> bool:
        """Return whether a later edit may refer to the message of this part."""
        ...

    async def send(self, part: PartT, target: PartTarget) -> str | None:
        """Send a part without a file; return the id of its message."""
        ...

    async def send_file(self, part: PartT, target: PartTarget) -> str | None:
        """Send a part with its file; return the id of its message."""
        ...

    async def edit(self, part: PartT, message_id: str, target: PartTarget) -> None:
        """Replace the text and the buttons of an earlier message."""
        ...

    async def report_lost_file(self, part: PartT, target: PartTarget, sentence: str) -> str | None:
        """Send the rest of a part with a sentence about its file, which cannot be sent."""
        ...


@dataclass(slots=True)
class _PartProgress:
    """The progress of a message: how many parts arrived, and the id of the message with its text."""

    # One attempt at a time: control may repeat a delivery while a large file is still being sent.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    parts: int = 0
    unknown_outcomes: int = 0
    """How often the next part, with a file, was sent with an unknown outcome or its upload broke off."""
    attempted_at: float | None = None
    """When this process sent the next part first, in the event loop's time."""
    is_labelled: bool = False
    """Whether an attempt that the messenger would not recognise came before."""
    message_id: str | None = None
    is_complete: bool = False

    def begin_part(self, number: int) -> None:
        """Record that all parts before this number have arrived."""
        self.parts, self.unknown_outcomes = number, 0
        self.attempted_at, self.is_labelled = None, False

    def is_in_doubt(self, maybe_repeated: bool, recognition_s: float) -> bool:
        """Record an attempt; return whether an earlier one may have arrived unrecognisably."""
        now = _now()
        is_recent = self.attempted_at is not None and now - self.attempted_at < recognition_s
        if not is_recent:
            self.attempted_at = now
            self.is_labelled = self.is_labelled or maybe_repeated
        return self.is_labelled


class MultipartSender(Generic[PartT]):
    """Deliveries of the messages and notes of one bot."""

    def __init__(self, sender: PartSender[PartT], control: ControlClient) -> None:
        self._sender = sender
        self._control = control
        self._deliveries: OrderedDict[tuple[int, datetime], _PartProgress] = OrderedDict()
        self._slots = asyncio.Semaphore(CONCURRENT_FILES)

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send all parts of a message in order.

        Raises Unavailable if the next part was certainly not sent, OutcomeUnknown if it may have
        been.
        """
        if not self._sender.is_user_id(user_id):
            messenger = self._sender.messenger
            detail = _("{user_id!r} is not a {messenger} user id; correct the DM {dm!r}.").format(
                user_id=user_id, messenger=messenger, dm=message.dm
            )
            return _undeliverable(message, detail)
        progress = self._progress(message)
        async with progress.lock:
            try:
                if not progress.is_complete:
                    await self._resume(progress, message, user_id)
            except RefusedError as refusal:
                return _undeliverable(message, refusal.text)
        return DeliveryReceipt(
            outbox_id=message.outbox_id, status="delivered", message_id=progress.message_id
        )

    async def send_note(self, user_id: str, text: str) -> None:
        """Send a note of control to a user, in as many messages as needed; give up after some minutes."""
        deadline = _now() + NOTE_TIMEOUT_S
        try:
            for part in self._sender.split_note(text):
                await self._send_note_part(user_id, part, deadline)
        except (Unavailable, RefusedError) as error:
            log.warning("note not sent", messenger=self._sender.messenger, error=str(error))

    async def _send_note_part(self, user_id: str, part: PartT, deadline: float) -> None:
        """Send a text that nobody repeats; raises Unavailable after the deadline."""
        key, attempt = secrets.token_hex(12), part
        while True:
            target = PartTarget(user_id, _now() + SEND_TIMEOUT_S, key)
            try:
                await self._sender.send(attempt, target)
            except Unavailable as error:
                wait_s = error.retry_after_s or NOTE_RETRY_S
                if _now() + wait_s > deadline:
                    raise
                if isinstance(error, OutcomeUnknown) and self._sender.recognition_s == 0:
                    attempt = self._sender.label(part, target.language)
                await asyncio.sleep(wait_s)
            else:
                return

    async def _resume(
        self, progress: _PartProgress, message: OutboundMessage, user_id: str
    ) -> None:
        """Send the parts of a message that have not arrived yet."""
        deadline = _now() + SEND_TIMEOUT_S
        # Control knows more than this process after a restart of the gateway.
        if message.partly_sent is not None and message.partly_sent.parcels > progress.parts:
            progress.parts = message.partly_sent.parcels
            progress.message_id = message.partly_sent.message_id
        parts, first = self._sender.split(message), progress.parts
        for number in range(first, len(parts)):
            part = parts[number]
            target = PartTarget(
                user_id,
                deadline,
                _make_key(message, number),
                number=number,
                outbox_id=message.outbox_id,
                reply_to=message.reply_to,
                answers=message.answers,
                waits_since=message.at,
                language=message.language,
            )
            edited = message.edits.message_id if message.edits and number == 0 else None
            # Repeating an edit does no harm.
            is_repetition = number == first and message.maybe_repeated
            maybe_repeated = is_repetition and not self._sender.is_recognised(message)
            if edited is None and progress.is_in_doubt(maybe_repeated, self._sender.recognition_s):
                part = self._sender.label(part, message.language)
            sent_id = await self._send(progress, part, target, edited)
            if self._sender.has_text(parts[number]) or progress.message_id is None:
                progress.message_id = sent_id
            progress.begin_part(number + 1)
            if number + 1 < len(parts):
                await self._store_progress(message, progress)
        progress.is_complete = True

    async def _store_progress(self, message: OutboundMessage, progress: _PartProgress) -> None:
        """Store the progress at control, because another process may resume the delivery."""
        await self._control.keep_progress(
            DeliveryProgress(
                outbox_id=message.outbox_id,
                parcels=progress.parts,
                message_id=progress.message_id,
            )
        )

    async def _send(
        self, progress: _PartProgress, part: PartT, target: PartTarget, edited: str | None
    ) -> str | None:
        if self._sender.file_of(part) is not None:
            return await self._send_file(progress, part, target)
        if edited is not None and await self._edit(part, edited, target):
            return edited
        return await self._sender.send(part, target)

    async def _send_file(
        self, progress: _PartProgress, part: PartT, target: PartTarget
    ) -> str | None:
        """Send a file; after a refusal or several unknown outcomes, send a notice instead."""
        if progress.unknown_outcomes >= MAX_FILE_ATTEMPTS:
            why = _("the connection failed or timed out {times} times; it may have arrived").format(
                times=progress.unknown_outcomes
            )
            return await self._report_lost_file(part, target, why)
        async with self._slots:
            try:
                return await self._sender.send_file(part, target)
            except (OutcomeUnknown, UploadBrokenError, asyncio.CancelledError):
                # Cancelled means that it took longer than control waits.
                progress.unknown_outcomes += 1
                raise
            except RefusedError as refusal:
                if refusal.blocks_user:
                    raise
                return await self._report_lost_file(part, target, refusal.text)

    async def _report_lost_file(self, part: PartT, target: PartTarget, why: str) -> str | None:
        log.warning("file not sent", outbox_id=target.outbox_id, reason=why)
        sentence = describe_lost_file(self._sender.file_of(part), why)
        return await self._sender.report_lost_file(
            part, target, translate(sentence, target.language)
        )

    async def _edit(self, part: PartT, message_id: str, target: PartTarget) -> bool:
        """Edit an earlier message; return False if a new one must be sent instead."""
        try:
            await self._sender.edit(part, message_id, target)
        except RefusedError as refusal:
            if refusal.blocks_user:
                raise
            # A message that was deleted, or is too old to be edited, is sent again.
            return False
        return True

    def _progress(self, message: OutboundMessage) -> _PartProgress:
        # The time is part of the key: a restored database assigns ids a second time.
        key = (message.outbox_id, message.at)
        progress = self._deliveries.setdefault(key, _PartProgress())
        while len(self._deliveries) > MAX_DELIVERIES:
            self._deliveries.popitem(last=False)
        return progress


def _make_key(message: OutboundMessage, number: int) -> str:
    # The time is part of the key: a restored database assigns ids a second time.
    key = (message.gateway, str(message.outbox_id), message.at.isoformat(), str(number))
    return hashlib.blake2s("\0".join(key).encode(), digest_size=12).hexdigest()


def _undeliverable(message: OutboundMessage, detail: str) -> DeliveryReceipt:
    return DeliveryReceipt(outbox_id=message.outbox_id, status="undeliverable", detail=detail)


def _now() -> float:
    return asyncio.get_running_loop().time()
