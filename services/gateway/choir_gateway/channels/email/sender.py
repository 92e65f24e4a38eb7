"""Delivery of messages by mail: one mail each, with its files, in the thread of what it answers.

A mail that was sent is recorded on disk, so that a repeated delivery does not send it again. Where the
outcome is unknown, it is sent again with the same Message-ID and a label.
"""

import asyncio
from collections.abc import Sequence
from typing import IO

import structlog

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _, translate
from choir_common.keyed_lock import KeyedLock
from choir_common.mail.account import MailAccount
from choir_common.mail.errors import MailError
from choir_common.mail.smtp import send_message
from choir_common.wire.channel_config import MAIL_ADDRESS
from choir_common.wire.messages import DeliveryReceipt, DmBinding, OutboundMessage
from choir_gateway.channels.email.composer import (
    FileContent,
    MailDraft,
    compose_mail,
    draft_message,
    draft_note,
)
from choir_gateway.channels.email.mail_budget import MailBudget
from choir_gateway.channels.email.message_ids import make_message_id, make_note_id, short_id
from choir_gateway.channels.email.notices import NoticeCombiner
from choir_gateway.channels.email.threads import ThreadMail, ThreadState, ThreadStore
from choir_gateway.channels.file_transfer import RefusedError, fetch_file
from choir_gateway.channels.labels import describe_lost_file

log = structlog.get_logger("choir.gateway.email")

# Below the outbox's own deadline for a delivery, so that the outbox receives the error.
SEND_TIMEOUT_S = 50.0
MAX_FILES_BYTES = 18_000_000
"""All files of a mail; most servers refuse mail above 25 MB, and base64 adds a third."""
LIMIT_TEXT = _("a mail takes files of up to {mb} MB in total").format(
    mb=MAX_FILES_BYTES // 1_000_000
)
TOO_LARGE = _("The files {names} could not be sent: the mail is too large for the server.")
OPERATOR_PAUSE_S = 300.0
"""After errors that only a person can correct, such as a wrong password."""
LATER_PAUSE_S = 60.0


class EmailSender:
    """Sender of one mailbox."""

    def __init__(
        self,
        account: MailAccount,
        *,
        files: OutboxFilesClient,
        threads: ThreadStore,
        notices: NoticeCombiner,
        budget: MailBudget,
    ) -> None:
        self._account = account
        self._files = files
        self._threads = threads
        self._notices = notices
        self._budget = budget
        # One mail of a conversation at a time: control may repeat a delivery that is still being made.
        self._locks = KeyedLock()
        self.error = ""
        """Why the last mail was not sent; empty after a success."""

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message.

        Raises Unavailable if it was certainly not sent, or if the user got too many mails in the last hour;
        OutcomeUnknown if it may have been sent.
        """
        if not MAIL_ADDRESS.fullmatch(user_id):
            detail = _("{user_id!r} is not a mail address; correct the DM {dm!r}.").format(
                user_id=user_id, dm=message.dm
            )
            return _undeliverable(message, detail)
        async with self._locks.of(message.dm):
            state = await self._threads.load(message.dm)
            message_id = make_message_id(message, self._account.address)
            earlier = _find_earlier_mail(state, short_id(message_id))
            if earlier is not None:
                return _delivered(message, earlier)
            self._require_budget(message.dm)
            others = await self._notices.find_others(message, state)
            files, problems = await self._fetch_files(message)
            draft = draft_message(
                message,
                message_id,
                parent=_find_parent(message, state),
                more=others,
                files=files,
                problems=problems,
            )
            try:
                await self._send_without_large_files(draft, message.dm, user_id)
            except RefusedError as refusal:
                return _undeliverable(message, refusal.text)
            await self._threads.add(message.dm, short_id(message_id), draft.thread_mail)
            await self._notices.record_delivery(message, others)
            return _delivered(message, short_id(message_id), "; ".join(problems))

    async def send_notes(self, dm: DmBinding, texts: Sequence[str]) -> None:
        """Send notes of control in one mail that answers the user's last one; raises as `deliver`."""
        async with self._locks.of(dm.name):
            self._require_budget(dm.name)
            parent = (await self._threads.load(dm.name)).newest(is_users=True)
            draft = draft_note(texts, make_note_id(self._account.address), parent=parent)
            try:
                await self._send(draft, dm.name, dm.user_id)
            except RefusedError as refusal:
                log.warning("note not sent", dm=dm.name, reason=refusal.text)

    def _require_budget(self, dm: str) -> None:
        wait_s = self._budget.wait_s(dm)
        if wait_s:
            log.warning("too many mails in an hour", dm=dm, wait_s=round(wait_s))
            raise Unavailable(
                _("This user got as many mails in the last hour as `email.mails_per_hour` allows."),
                retry_after_s=wait_s,
            )

    async def _send_without_large_files(self, draft: MailDraft, dm: str, user_id: str) -> None:
        """Send a mail; if the server finds it too large, send it without its files and name them."""
        try:
            await self._send(draft, dm, user_id)
        except _TooLargeError as refusal:
            if not draft.files:
                raise
            names = ", ".join(file.name for file in draft.files)
            sentence = translate(TOO_LARGE.format(names=names), draft.language)
            log.warning("files not sent", dm=dm, reason=refusal.text)
            await self._send(draft.without_files(sentence), dm, user_id)

    async def _send(self, draft: MailDraft, dm: str, user_id: str) -> None:
        """Send a mail. Raises RefusedError for a final refusal, Unavailable and OutcomeUnknown."""
        outgoing = await asyncio.to_thread(
            compose_mail, draft, address=self._account.address, recipient=user_id
        )
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send_message(self._account, outgoing)
        except TimeoutError:
            self._budget.count(dm)
            self.error = f"{self._account.smtp.name} did not accept a mail in time."
            raise OutcomeUnknown(self.error) from None
        except MailError as error:
            self.error = error.text
            if error.kind == "outcome_unknown":
                self._budget.count(dm)
            raise _convert(error) from error
        self._budget.count(dm)
        self.error = ""

    async def _fetch_files(
        self, message: OutboundMessage
    ) -> tuple[tuple[FileContent, ...], tuple[str, ...]]:
        """Return the files, and a sentence for each that cannot be sent; raises Unavailable."""
        files, problems, room = list[FileContent](), list[str](), MAX_FILES_BYTES
        for it in message.attachments:
            try:
                async with fetch_file(
                    self._files, message.outbox_id, it, max_bytes=room, limit=LIMIT_TEXT
                ) as spool:
                    content = await asyncio.to_thread(_read, spool)
            except RefusedError as refusal:
                sentence = describe_lost_file(it, refusal.text)
                problems.append(translate(sentence, message.language))
            else:
                room -= len(content)
                files.append(FileContent(it.name, it.mime, content))
        return tuple(files), tuple(problems)


class _TooLargeError(RefusedError):
    """The server refuses a mail because of its size."""


def _read(spool: IO[bytes]) -> bytes:
    spool.seek(0)
    return spool.read()


def _find_earlier_mail(state: ThreadState, key: str) -> str | None:
    """Return the short id of the mail that contained a message already."""
    if key in state.mails:
        return key
    combined = state.combined
    if combined is not None and combined.is_sent and key in (combined.first, *combined.others):
        return combined.first
    return None


def _find_parent(message: OutboundMessage, state: ThreadState) -> ThreadMail | None:
    """Return the mail to answer; None for a message that begins a thread."""
    for key in (message.edits.message_id if message.edits else None, message.reply_to):
        if key is not None and key in state.mails:
            return state.mails[key]
    # Choir's own messages and reports of jobs have a subject of their own.
    begins = message.answers is None and (message.session_id is None or message.kind == "report")
    return None if begins else state.newest(is_users=True)


def _convert(error: MailError) -> Exception:
    match error.kind:
        case "unknown_recipient" | "refused":
            return RefusedError(error.text)
        case "too_large":
            return _TooLargeError(error.text)
        case "outcome_unknown":
            return OutcomeUnknown(error.text)
        case "auth_failed" | "tls_failed" | "not_configured":
            return Unavailable(error.text, retry_after_s=OPERATOR_PAUSE_S)
        case "try_later" | "mailbox_full":
            return Unavailable(error.text, retry_after_s=LATER_PAUSE_S)
        case _:
            return Unavailable(error.text)


def _delivered(message: OutboundMessage, message_id: str, detail: str = "") -> DeliveryReceipt:
    return DeliveryReceipt(
        outbox_id=message.outbox_id, status="delivered", detail=detail, message_id=message_id
    )


def _undeliverable(message: OutboundMessage, detail: str) -> DeliveryReceipt:
    return DeliveryReceipt(outbox_id=message.outbox_id, status="undeliverable", detail=detail)
