"""Receiver of users' mail: accepted mail is stored by control, in order, then marked as read.

The mark on disk moves only after control has stored a mail, so a process that is killed in between reads it
again; control recognises it by its id.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import structlog
from imap_tools.message import MailMessage

from choir_common.clients.control import ControlClient
from choir_common.i18n import _, translate
from choir_common.wire.attachments import MAX_FILES, Attachment
from choir_common.wire.messages import MAX_QUOTE, DmBinding, InboundMessage, QuotedMessage
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.email.answers import Outcome, QuestionAnswerer
from choir_gateway.channels.email.mail_parser import (
    ParsedMail,
    find_message_id,
    parse_mail,
    read_headers,
)
from choir_gateway.channels.email.mail_policy import MailPolicy
from choir_gateway.channels.email.message_ids import is_own, short_id
from choir_gateway.channels.email.notes import NoteMailer
from choir_gateway.channels.email.threads import ThreadMail, ThreadStore
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.strangers import StrangerReplies

log = structlog.get_logger("choir.gateway.email")


MAX_MAIL_BYTES = 30_000_000
MAX_QUOTED_CHARS = 300
TOO_LARGE_TEXT = _(
    "Your mail was not read: it is larger than {mb} MB. Send the files in several mails."
).format(mb=MAX_MAIL_BYTES // 1_000_000)


class MailReceiver:
    """Receiver of one mailbox's mail."""

    def __init__(
        self,
        gateway: str,
        *,
        control: ControlClient,
        spool: FileSpool,
        policy: MailPolicy,
        answerer: QuestionAnswerer,
        threads: ThreadStore,
        notes: NoteMailer,
        strangers: StrangerReplies,
    ) -> None:
        self._gateway = gateway
        self._control = control
        self._spool = spool
        self._policy = policy
        self._answerer = answerer
        self._threads = threads
        self._notes = notes
        self._strangers = strangers

    def find_dm(self, head: MailMessage) -> DmBinding | None:
        """Return the conversation of a mail by its headers; None if it is of no user."""
        return self._policy.find_dm(head)

    def invite_stranger(self, head: MailMessage) -> None:
        """Tell a stranger who has sent a mail how to ask for a conversation; only its headers are read."""
        stranger = self._policy.find_stranger(head)
        if stranger is not None:
            self._strangers.add(stranger)

    def refuse_size(self, dm: DmBinding, size: int) -> bool:
        """Return whether a mail is too large to be read; its sender is told."""
        if size <= MAX_MAIL_BYTES:
            return False
        log.warning("mail too large", gateway=self._gateway, dm=dm.name, bytes=size)
        self._notes.add(dm, translate(TOO_LARGE_TEXT, dm.language))
        return True

    async def accept(self, message: MailMessage, dm: DmBinding, mail_id: str) -> None:
        """Store a mail as a message or as a decision; returns once control has it or refuses it."""
        mail_header = find_message_id(read_headers(message))
        mail = await asyncio.to_thread(parse_mail, message, mail_header, datetime.now(UTC))
        thread_mail = ThreadMail(mail.message_id, mail.subject, mail.references, is_users=True)
        result = await repeat_until_accepted(
            lambda: self._answerer.answer(mail, dm, mail_id), self._gateway
        )
        if mail.message_id:
            await self._threads.add(dm.name, mail_id, thread_mail)
        if result is not None and result.note:
            self._notes.add(dm, translate(result.note, dm.language), question=result.question)
        if result is None or result.outcome is Outcome.HANDLED:
            return
        content = await self._make_message(mail, dm, mail_id)
        if content is None:
            return
        acceptance = await repeat_until_accepted(
            lambda: self._control.accept(content), self._gateway
        )
        # The note of a repeated message was sent before.
        if acceptance is not None and not acceptance.duplicate and acceptance.note is not None:
            self._notes.add(dm, acceptance.note)

    async def _make_message(
        self, mail: ParsedMail, dm: DmBinding, mail_id: str
    ) -> InboundMessage | None:
        """Return the message with its files stored; None if the mail is empty."""
        attachments, problems = await self._store_files(mail, dm)
        text = "\n\n".join(filter(None, (mail.text_with_subject(), *problems)))
        if not text and not attachments:
            log.info("empty mail ignored", gateway=self._gateway, dm=dm.name)
            return None
        return InboundMessage(
            gateway=self._gateway,
            dm=dm.name,
            # Users cannot take each other's ids.
            update_id=f"{dm.name}:{mail_id}",
            text=text,
            sent_at=mail.sent_at,
            attachments=tuple(attachments),
            message_id=mail_id,
            reply_to=await self._find_quoted(mail, dm),
        )

    async def _find_quoted(self, mail: ParsedMail, dm: DmBinding) -> QuotedMessage | None:
        answered = next((it for it in mail.answers if is_own(it)), None)
        if answered is None:
            return None
        newest = (await self._threads.load(dm.name)).newest(is_users=False)
        # Nearly every mail is a reply; the agent knows what it said last.
        is_newest = newest is not None and newest.message_id == answered
        text = "" if is_newest else mail.body.quoted[: min(MAX_QUOTED_CHARS, MAX_QUOTE)]
        return QuotedMessage(message_id=short_id(answered), text=text)

    async def _store_files(
        self, mail: ParsedMail, dm: DmBinding
    ) -> tuple[list[Attachment], list[str]]:
        """Store the files until control fetches them; name those that cannot be stored."""
        attachments, problems = list[Attachment](), list[str]()
        for file in mail.files[:MAX_FILES]:
            metadata = Attachment(name=file.name, kind=file.kind, mime=file.mime, ref="-")

            async def store(
                metadata: Attachment = metadata, content: bytes = file.content
            ) -> Attachment:
                return await self._spool.store_upload(dm.name, metadata, _at_once(content))

            attachment = await repeat_until_accepted(store, self._gateway)
            if attachment is None:
                problems.append(f"[The file {file.name} was too large and is missing.]")
            else:
                attachments.append(attachment)
        if len(mail.files) > MAX_FILES:
            problems.append(f"[Files after the first {MAX_FILES} are missing.]")
        return attachments, problems


async def _at_once(content: bytes) -> AsyncIterator[bytes]:
    yield content
