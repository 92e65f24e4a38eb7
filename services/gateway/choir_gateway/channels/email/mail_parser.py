"""Conversion of an accepted mail into a user's message. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from imap_tools.message import MailAttachment, MailMessage

from choir_common.mail.text import clean_text, html_to_text, one_line
from choir_common.wire.attachments import ANY_MIME, MAX_FILE_NAME, AttachmentKind
from choir_common.wire.messages import MAX_TEXT
from choir_gateway.channels.email.authentication import Headers
from choir_gateway.channels.email.message_ids import parse_ids
from choir_gateway.channels.email.reply_text import WrittenText, cut_signature, extract_reply

MAX_SUBJECT = 200
_MIME = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")
_REPLY = re.compile(r"(?:re|aw|antw|sv|vs|odp|ref|rif)(?:\[\d+\])?\s*:\s*", re.IGNORECASE)
_FORWARD = re.compile(r"(?:fwd?|wg|tr|rv|i|doorst)\s*:\s*", re.IGNORECASE)
# Signatures of the whole mail, which mail programs attach as files.
SIGNATURES = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
)


@dataclass(frozen=True, slots=True)
class MailFile:
    """An attached file."""

    name: str
    kind: AttachmentKind
    mime: str
    content: bytes


@dataclass(frozen=True, slots=True)
class ParsedMail:
    """A mail of a user."""

    message_id: str
    subject: str
    body: WrittenText
    sent_at: datetime
    answers: tuple[str, ...]
    """The Message-IDs in `In-Reply-To`, or else the newest in `References`."""
    references: tuple[str, ...]
    files: tuple[MailFile, ...]

    def text_with_subject(self) -> str:
        """Return the text, below the subject if that is not of an earlier mail.

        A command must be the first word of a message, so it has no subject above it.
        """
        text = self.body.text
        if not self.subject or is_reply_subject(self.subject) or text.startswith("/"):
            return text[:MAX_TEXT]
        if not text:
            return self.subject
        return f"Subject: {self.subject}\n\n{text}"[:MAX_TEXT]


def read_headers(message: MailMessage) -> Headers:
    """Return the headers from the top, unfolded, with names in lower case."""
    return [(name.lower(), " ".join(str(it).split())) for name, it in message.obj.items()]


def find_message_id(headers: Headers) -> str:
    """Return the Message-ID; an empty text if there is none."""
    ids = (parse_ids(value) for name, value in headers if name == "message-id")
    return next((it[0] for it in ids if it), "")


def find_answered(headers: Headers) -> tuple[str, ...]:
    """Return the Message-IDs of the mails that a mail says it answers."""
    return (*_ids(headers, "in-reply-to"), *_ids(headers, "references"))


def read_subject(message: MailMessage) -> str:
    """Return the subject on one line."""
    return storable(one_line(message.subject, MAX_SUBJECT))


def parse_mail(message: MailMessage, message_id: str, now: datetime) -> ParsedMail:
    """Return the content of a mail."""
    headers = read_headers(message)
    answers = _ids(headers, "in-reply-to")
    references = _ids(headers, "references")
    subject = read_subject(message)
    text = read_text(message)
    is_reply = bool(answers or references) and not _FORWARD.match(subject)
    own = cut_signature(text)
    return ParsedMail(
        message_id=message_id,
        subject=subject,
        body=extract_reply(text) if is_reply else WrittenText(own, own, ""),
        sent_at=read_date(message, now),
        answers=answers or references[-1:],
        references=references,
        files=tuple(read_files(message)),
    )


def is_reply_subject(subject: str) -> bool:
    """Return whether a subject begins with a mark of a reply."""
    return _REPLY.match(subject) is not None


def reply_subject(subject: str) -> str:
    """Return the subject of a reply, with one mark however many there were."""
    while match := _REPLY.match(subject):
        subject = subject[match.end() :]
    return f"Re: {subject}".strip()


def _ids(headers: Headers, name: str) -> tuple[str, ...]:
    return parse_ids(" ".join(value for header, value in headers if header == name))


def read_text(message: MailMessage) -> str:
    """Return the whole text, of HTML if there is no plain text."""
    # A part in HTML can be empty in plain text, as some programs send it.
    plain = clean_text(message.text)
    if plain or not message.html:
        return plain
    return html_to_text(message.html, mark_quotations=True)


def read_date(message: MailMessage, now: datetime) -> datetime:
    """Return the time in the header `Date`; `now` if it has none that can be read."""
    try:
        sent_at = parsedate_to_datetime(message.date_str)
    except (ValueError, TypeError, IndexError, OverflowError):
        return now
    return (sent_at if sent_at.tzinfo else sent_at.replace(tzinfo=UTC)).astimezone(UTC)


def read_files(message: MailMessage) -> Iterator[MailFile]:
    """Yield the attached files."""
    for attachment in message.attachments:
        mime = attachment.content_type.lower()
        if mime in SIGNATURES:
            continue
        yield MailFile(
            name=_name(attachment),
            kind=_kind(mime),
            mime=mime if _MIME.fullmatch(mime) else ANY_MIME,
            content=attachment.payload,
        )


def _name(attachment: MailAttachment) -> str:
    name = storable(one_line(attachment.filename or "", MAX_FILE_NAME)[-MAX_FILE_NAME:])
    if name:
        return name
    return "message.eml" if attachment.content_type == "message/rfc822" else "file"


def storable(text: str) -> str:
    """Return a text without the half characters that undecodable headers contain."""
    return text.encode(errors="replace").decode()


def _kind(mime: str) -> AttachmentKind:
    match mime.partition("/")[0]:
        case "image":
            return "photo"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"
