"""A person with a mail program: writes mail into the agent's mailbox as the mail server would store it."""

import email
import email.policy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from choir_common.wire.channel_config import MailboxConfig
from tests.support.mail import HOST, USER, Certificate, ImapServer, SmtpHandler, make_certificate

ANN = "ann@choir.test"
AUTHSERV = "mx.choir.test"
PROVEN = f"{AUTHSERV}; dmarc=pass (p=reject) header.from=choir.test"
RECEIVED = "from out.choir.test by mx.choir.test with ESMTPS; Fri, 20 Nov 2026 10:00:00 +0000"


@dataclass
class MailUser:
    """A user of a mail program."""

    imap: ImapServer
    postman: SmtpHandler
    address: str = ANN
    last: bytes = b""
    """The last mail that was written."""

    def write(
        self,
        text: str,
        *,
        subject: str = "",
        answers: str | None = None,
        results: Sequence[str] = (PROVEN,),
        headers: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
        message_id: str | None = None,
    ) -> str:
        """Write a mail to the agent; return its Message-ID.

        `results` are the Authentication-Results headers, from the top.
        """
        mail = EmailMessage(email.policy.SMTP)
        mail["Return-Path"] = f"<{self.address}>"
        for result in results:
            mail.add_header("Authentication-Results", result)
        mail["Received"] = RECEIVED
        mail["From"] = f"Ann <{self.address}>"
        mail["To"] = USER
        if subject:
            mail["Subject"] = subject
        mail["Message-ID"] = message_id or make_msgid(domain="choir.test")
        mail["Date"] = format_datetime(datetime.now(UTC))
        if answers:
            mail["In-Reply-To"] = mail["References"] = answers
        for name, value in (headers or {}).items():
            del mail[name]
            mail[name] = value
        mail.set_content(text)
        for name, content in (files or {}).items():
            mail.add_attachment(
                content, maintype="application", subtype="octet-stream", filename=name
            )
        self.last = mail.as_bytes()
        self.imap.deliver(self.last)
        return str(mail["Message-ID"])

    def write_again(self) -> None:
        """Let the server store the last mail a second time."""
        self.imap.deliver(self.last)

    def inbox(self) -> list[EmailMessage]:
        """Return the mails from the agent."""
        mails: list[EmailMessage] = []
        for envelope in self.postman.received:
            assert isinstance(envelope.content, bytes)
            mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
            assert isinstance(mail, EmailMessage)
            if self.address in envelope.rcpt_tos:
                mails.append(mail)
        return mails


def plain_text(mail: EmailMessage) -> str:
    """Return the text of a mail."""
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n").strip()


def html_text(mail: EmailMessage) -> str:
    """Return the HTML of a mail."""
    body = mail.get_body(("html",))
    assert body is not None
    return str(body.get_content())


@cache
def shared_certificate() -> Certificate:
    """Return a certificate for all tests of a process: making one takes time."""
    return make_certificate(Path(mkdtemp(prefix="choir-certificate-")))


def local_mailbox(imap: ImapServer, postman: SmtpHandler, **settings: object) -> MailboxConfig:
    """Return the configuration of a mailbox at servers on this machine."""
    return MailboxConfig.model_validate(
        {
            "smtp_host": HOST,
            "smtp_port": postman.port,
            "smtp_security": "none",
            "imap_host": HOST,
            "imap_port": imap.imap_port,
            "imap_security": "none",
            "authserv_id": AUTHSERV,
            **settings,
        }
    )
