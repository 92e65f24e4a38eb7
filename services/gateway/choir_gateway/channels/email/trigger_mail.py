"""Conversion of a mail that may start work into an offer to control. Pure."""

import hashlib
from collections.abc import Sequence
from datetime import datetime

from imap_tools.message import MailMessage

from choir_common.mail.text import one_line
from choir_common.wire.triggers import (
    MAX_MAIL_FILES,
    MAX_MAIL_TEXT,
    MailContent,
    MailedFile,
    MailOffer,
)
from choir_gateway.channels.email.authentication import Headers
from choir_gateway.channels.email.mail_parser import (
    MailFile,
    read_date,
    read_headers,
    read_subject,
    read_text,
    storable,
)
from choir_gateway.channels.email.mail_policy import Outsider
from choir_gateway.channels.email.message_ids import mentions_own

MAX_LINE = 200
MAX_DOUBT = 200


def make_offer(
    head: MailMessage, outsider: Outsider, *, gateway: str, mail_id: str, now: datetime
) -> MailOffer:
    """Return what the headers of a mail say."""
    sender = head.from_values
    return MailOffer(
        gateway=gateway,
        mail_id=mail_id,
        sender=outsider.address,
        sender_name=_line(sender.name if sender else ""),
        to=_line(", ".join(head.to)),
        subject=read_subject(head),
        sent_at=read_date(head, now),
        size=head.size_rfc822,
        doubt=outsider.doubt[:MAX_DOUBT],
    )


def make_content(message: MailMessage, files: Sequence[MailFile], offer: MailOffer) -> MailContent:
    """Return what a mail with these files says, with a digest that copies of it share."""
    text = storable(read_text(message))
    digest = hashlib.sha256()
    date = _find(read_headers(message), "date")
    for part in (offer.sender.casefold(), date, offer.subject, text):
        digest.update(part.encode(errors="replace") + b"\0")
    for file in files:
        digest.update(hashlib.sha256(file.content).digest())
    return MailContent(
        text=text[:MAX_MAIL_TEXT],
        files=tuple(MailedFile(name=it.name, size=len(it.content)) for it in files)[
            :MAX_MAIL_FILES
        ],
        digest=f"sha256:{digest.hexdigest()}",
    )


def quotes_own(message: MailMessage) -> bool:
    """Return whether a mail contains a Message-ID of Choir, as reports on mail that did not arrive do."""
    return mentions_own(bytes(message.obj).decode("latin-1"))


def _find(headers: Headers, name: str) -> str:
    return next((value for header, value in headers if header == name), "")


def _line(text: str) -> str:
    return storable(one_line(text, MAX_LINE))
