"""Composition of a mail: headers of its thread, text in two forms, attached files. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

from choir_common.i18n import ENGLISH, translate
from choir_common.mail.smtp import OutgoingMessage
from choir_common.mail.text import one_line
from choir_common.wire.attachments import ANY_MIME
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.email.choices import list_choices
from choir_gateway.channels.email.mail_parser import reply_subject
from choir_gateway.channels.email.message_ids import MAX_IDS
from choir_gateway.channels.email.rendering import to_mail_html, to_mail_text
from choir_gateway.channels.email.threads import ThreadMail
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import Styled, make_own, make_plain
from choir_gateway.channels.labels import repeated_label

CHOIR_NAME = "Choir"
MAX_SUBJECT = 70
MAX_FILE_NAME = 120
# 7-bit: not every server accepts 8-bit content.
_POLICY = policy.SMTP.clone(cte_type="7bit")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MIME = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file to attach."""

    name: str
    mime: str
    content: bytes


@dataclass(frozen=True, slots=True)
class MailDraft:
    """The content of a mail."""

    message_id: str
    sender_name: str
    texts: tuple[Styled, ...]
    """Paragraphs in order."""
    parent: ThreadMail | None = None
    """The mail that it answers."""
    files: tuple[FileContent, ...] = ()
    language: str = ENGLISH
    """That of the note about a repetition."""
    is_repeated: bool = False
    """Whether an earlier mail with this Message-ID may have arrived."""

    def without_files(self, sentence: str) -> "MailDraft":
        """Return the mail with a sentence instead of its files."""
        return replace(self, files=(), texts=(*self.texts, make_plain(sentence)))

    @property
    def thread_mail(self) -> ThreadMail:
        """Return what is stored about it for later answers."""
        parent = self.parent
        if parent is None:
            first = next(filter(None, map(to_mail_text, self.texts)), "")
            return ThreadMail(self.message_id, _first_line(first) or self.sender_name)
        ids = (*parent.references, parent.message_id)
        references = ids if len(ids) <= MAX_IDS else (ids[0], *ids[1 - MAX_IDS :])
        return ThreadMail(self.message_id, reply_subject(parent.subject), references)


def draft_message(
    message: OutboundMessage,
    message_id: str,
    *,
    parent: ThreadMail | None,
    more: Sequence[OutboundMessage] = (),
    files: Sequence[FileContent] = (),
    problems: Sequence[str] = (),
) -> MailDraft:
    """Return the mail of an outbound message, with the texts of `more` messages below it."""
    texts = [_styled(it) for it in (message, *more)]
    if message.buttons:
        texts.append(make_plain(translate(list_choices(message.buttons), message.language)))
    texts += [make_plain(problem) for problem in problems]
    # The name is the one thing in a mail that an agent cannot write.
    name = CHOIR_NAME if message.session_id is None else f"{message.agent_id} ({CHOIR_NAME})"
    return MailDraft(
        message_id,
        sender_name=name,
        texts=tuple(texts),
        parent=parent,
        files=tuple(files),
        language=message.language,
        is_repeated=message.maybe_repeated,
    )


def draft_note(texts: Sequence[str], message_id: str, *, parent: ThreadMail | None) -> MailDraft:
    """Return a mail with notes of Choir."""
    return MailDraft(message_id, CHOIR_NAME, tuple(make_own(text) for text in texts), parent)


def compose_mail(draft: MailDraft, *, address: str, recipient: str) -> OutgoingMessage:
    """Return the mail as bytes."""
    thread = draft.thread_mail
    mail = EmailMessage(_POLICY)
    mail["From"] = Address(draft.sender_name, addr_spec=address)
    mail["To"] = Address(addr_spec=recipient)
    mail["Subject"] = thread.subject
    mail["Message-ID"] = draft.message_id
    mail["Date"] = format_datetime(datetime.now(UTC))
    if draft.parent is not None:
        mail["In-Reply-To"] = draft.parent.message_id
        mail["References"] = " ".join(thread.references)
    # Machines do not answer such mail (RFC 3834); the second header is what Exchange reads.
    mail["Auto-Submitted"] = "auto-replied" if draft.parent else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    label = (make_plain(repeated_label(draft.language)),) if draft.is_repeated else ()
    texts = (*label, *draft.texts)
    text = "\n\n".join(filter(None, (to_mail_text(it).rstrip() for it in texts)))
    mail.set_content(_storable(text))
    mail.add_alternative(_storable(to_mail_html(*texts)), subtype="html")
    for file in draft.files:
        main, _, sub = _mime(file.mime).partition("/")
        name = one_line(file.name, MAX_FILE_NAME) or "file"
        mail.add_attachment(file.content, maintype=main, subtype=sub, filename=name)
    return OutgoingMessage(draft.message_id, address, (recipient,), mail.as_bytes())


def _styled(message: OutboundMessage) -> Styled:
    if message.session_id is None:
        return make_own(message.text)
    # An agent's process writes its notices and errors itself, and they quote servers verbatim.
    if message.kind in {"notice", "error"}:
        return make_plain(message.text)
    return parse_markdown(message.text)


def _first_line(text: str) -> str:
    line = one_line(text.strip().split("\n")[0], 10_000)
    if len(line) <= MAX_SUBJECT:
        return line
    return f"{line[:MAX_SUBJECT].rpartition(' ')[0] or line[:MAX_SUBJECT]}…"


def _storable(text: str) -> str:
    """Return a text without characters that mail cannot contain."""
    return _CONTROL.sub("", text).encode(errors="replace").decode()


def _mime(mime: str) -> str:
    # email.message cannot attach raw bytes of these types.
    if mime.startswith(("message/", "multipart/")) or not _MIME.fullmatch(mime.lower()):
        return ANY_MIME
    return mime.lower()
