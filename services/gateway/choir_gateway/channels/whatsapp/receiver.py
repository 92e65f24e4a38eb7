"""Storage of what Meta sends to the webhook: messages and presses of users, and statuses of sent messages.

Meta repeats a request until the response is 200, which means that control has stored all of it.
"""

import asyncio
from datetime import UTC, datetime

import structlog
from pydantic import ValidationError

from choir_common.clients.control import ControlClient
from choir_common.errors import InvalidRequest, Unavailable
from choir_common.i18n import _, translate
from choir_common.wire.messages import ButtonPress, DmBinding
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import Stranger, StrangerReplies
from choir_gateway.channels.whatsapp.cloud_api import UNEXPLAINED, WINDOW_CLOSED, MetaError
from choir_gateway.channels.whatsapp.journal import MessageJournal
from choir_gateway.channels.whatsapp.message_parser import (
    IGNORED_TYPES,
    parse_message,
    parse_press,
)
from choir_gateway.channels.whatsapp.presence import PresenceDisplay
from choir_gateway.channels.whatsapp.recipients import find_dm
from choir_gateway.channels.whatsapp.statuses import StatusBoard, StatusTag
from choir_gateway.channels.whatsapp.updates import (
    NumberUpdate,
    StatusUpdate,
    UpdateRequest,
    UserUpdate,
)

log = structlog.get_logger("choir.gateway.whatsapp")

# If control is unavailable for longer than this, Meta's repetition retries.
STORE_TIMEOUT_S = 10.0
TAKEN = frozenset({"sent", "delivered", "read", "played"})
FIELD = "messages"
NOT_DELIVERED = _("WhatsApp could not deliver a message to you: {reason}.")
WAITED = _(
    "Messages have waited since {waited}: WhatsApp lets them through only within 24 hours after your last "
    "message. They follow now."
)


class UpdateReceiver:
    """Receiver of one number's updates."""

    def __init__(
        self,
        gateway: str,
        phone_number_id: str,
        *,
        control: ControlClient,
        conversations: ConversationDirectory,
        journal: MessageJournal,
        statuses: StatusBoard,
        notes: NoteQueue,
        presence: PresenceDisplay,
        strangers: StrangerReplies,
        waiting: dict[str, datetime],
    ) -> None:
        """`waiting` has the users for whom messages wait, and since when; those who write are removed."""
        self._gateway = gateway
        self._phone_number_id = phone_number_id
        self._control = control
        self._conversations = conversations
        self._journal = journal
        self._statuses = statuses
        self._notes = notes
        self._presence = presence
        self._strangers = strangers
        self._waiting = waiting
        # One message at a time: concurrent ones would change the order of a conversation.
        self._lock = asyncio.Lock()
        self.error = ""
        """What Meta reported about the number last."""

    async def store(self, body: bytes) -> None:
        """Store all updates of a request whose signature was verified.

        Raises InvalidRequest for another body, Unavailable.
        """
        try:
            batch = UpdateRequest.model_validate_json(body)
        except ValidationError as error:
            raise InvalidRequest(
                "The body is not an update of a WhatsApp business account."
            ) from error
        values = [it.value for entry in batch.entry for it in entry.changes if it.field == FIELD]
        # An app has one webhook for all of its numbers.
        own = [
            it
            for it in values
            if it.metadata and it.metadata.phone_number_id == self._phone_number_id
        ]
        for value in own:
            self._note_reports(value)
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S), self._lock:
                for value in own:
                    for update in value.messages:
                        await self._store(update, value)
        except TimeoutError:
            raise Unavailable("Control did not store it in time.") from None

    def _note_reports(self, value: NumberUpdate) -> None:
        """Note statuses and errors; a sender may wait for them, so they do not wait for control."""
        for status in value.statuses:
            self._note_status(status)
        for error in value.errors:
            self.error = f"Meta reports: {error.text}"
            log.warning("Meta reports an error", gateway=self._gateway, error=error.text)

    def _note_status(self, status: StatusUpdate) -> None:
        key = StatusTag.parse(status.biz_opaque_callback_data)
        if key is None:
            return
        if status.status in TAKEN:
            self._statuses.note_success(key, status.id)
        elif status.status == "failed":
            error = status.errors[0] if status.errors else MetaError(code=UNEXPLAINED)
            if self._statuses.note_failure(key, error):
                self._report_loss(status, error)

    def _report_loss(self, status: StatusUpdate, error: MetaError) -> None:
        """Report that a message which counts as delivered has failed."""
        log.error("message failed after its delivery", gateway=self._gateway, error=error.text)
        self.error = f"A message that Meta had accepted failed: {error.text}"
        dm = find_dm(
            self._conversations, self._gateway, status.recipient_id, status.recipient_user_id
        )
        if dm is None:
            return
        if error.code == WINDOW_CLOSED:
            self._journal.close_window(dm.user_id)
        self._notes.add(dm.user_id, translate(NOT_DELIVERED.format(reason=error.text), dm.language))

    async def _store(self, update: UserUpdate, value: NumberUpdate) -> None:
        if update.group_id is not None or update.type in IGNORED_TYPES:
            return
        if self._journal.is_handled(update.id, update.timestamp):
            return
        dm = find_dm(self._conversations, self._gateway, update.sender, update.from_user_id)
        if dm is None:
            await self._note_stranger(update, value.name_of(update))
            return
        self._journal.note_arrival(dm.user_id, update.id, update.timestamp)
        press = parse_press(update, self._gateway, dm)
        note = await (self._accept(update, dm) if press is None else self._press(press))
        await self._journal.record(dm.user_id, update.id, update.timestamp)
        self._presence.acknowledge(dm.user_id, update.id)
        since = self._waiting.pop(dm.user_id, None)
        if since is not None:
            waited = f"{since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            self._notes.add(
                dm.user_id,
                translate(WAITED.format(waited=waited), dm.language),
            )
        if note is not None:
            self._notes.add(dm.user_id, note)

    async def _note_stranger(self, update: UserUpdate, name: str) -> None:
        """Let a stranger ask for a conversation; what was written is not read."""
        user_id = update.sender or update.from_user_id
        is_press = update.interactive is not None or update.button is not None
        # Only users who get a reply are recorded, and so a flood does not fill the journal.
        if not is_press and self._strangers.add(Stranger(user_id, name)):
            self._journal.note_arrival(user_id, update.id, update.timestamp)
            await self._journal.record(user_id, update.id, update.timestamp)

    async def _accept(self, update: UserUpdate, dm: DmBinding) -> str | None:
        message = parse_message(update, self._gateway, dm)
        acceptance = await repeat_until_accepted(
            lambda: self._control.accept(message), self._gateway
        )
        # The note of a repeated update was sent before.
        return None if acceptance is None or acceptance.duplicate else acceptance.note

    async def _press(self, press: ButtonPress) -> str | None:
        response = await repeat_until_accepted(lambda: self._control.press(press), self._gateway)
        return response.answer if response else None
