"""Send one message over SMTP.

A failure before the message's content is sent has no effect. If the connection is lost while the content is
sent, the outcome is unknown.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import aiosmtplib

from choir_common.i18n import _
from choir_common.mail.account import MailAccount, MailServer
from choir_common.mail.errors import MailError
from choir_common.mail.text import one_line

SETUP_TIMEOUT_S = 40.0
"""Timeout to connect, log in and name the recipients; until then nothing is sent."""
DATA_TIMEOUT_S = 60.0
"""Timeout to transfer the message; servers scan for viruses before they accept it."""
QUIT_TIMEOUT_S = 2.0
MAX_ERROR_CHARS = 300
# The EHLO name: looking up this machine's own name could take longer than all the rest.
EHLO_NAME = "[127.0.0.1]"

_NO_LOGIN = {530, 534, 535, 538}
_FULL = {452, 552}
_LATER = {421, 450, 451, 454}
_TOO_LARGE = "5.3.4"


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message ready to send, and its recipients; Bcc recipients are not in its headers."""

    message_id: str
    sender: str
    recipients: tuple[str, ...]
    content: bytes


async def send_message(account: MailAccount, outgoing: OutgoingMessage) -> None:
    """Send a message to all its recipients or to none.

    Raises MailError. After unreachable, tls_failed, auth_failed, unknown_recipient, mailbox_full, too_large,
    try_later, refused and timeout nothing was sent; otherwise the kind is outcome_unknown.
    """
    with _explained(account.smtp):
        async with _connected(account.smtp) as client:
            async with asyncio.timeout(SETUP_TIMEOUT_S):
                await _make_ready(client, account, outgoing)
            await _hand_over(client, account.smtp, outgoing)


@contextlib.asynccontextmanager
async def _connected(server: MailServer) -> AsyncIterator[aiosmtplib.SMTP]:
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=server.security == "tls",
        start_tls=server.security == "starttls",
        tls_context=ssl.create_default_context() if server.security != "none" else None,
        local_hostname=EHLO_NAME,
        timeout=SETUP_TIMEOUT_S,
    )
    try:
        yield client
        with contextlib.suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
            await client.quit(timeout=QUIT_TIMEOUT_S)
    finally:
        client.close()


async def _make_ready(
    client: aiosmtplib.SMTP, account: MailAccount, outgoing: OutgoingMessage
) -> None:
    await client.connect()
    try:
        await client.login(account.user, account.password)
    except aiosmtplib.SMTPNotSupported as error:
        raise MailError(
            "auth_failed",
            _("{smtp} supports no known login method.").format(smtp=account.smtp.name),
        ) from error
    limit = client.esmtp_extensions.get("size", "")
    # Checked before the transfer, so that a mail that is too large fails without effect.
    if limit.isdigit() and 0 < int(limit) < len(outgoing.content):
        raise MailError(
            "too_large",
            _(
                "The mail has {count} bytes; {smtp} accepts at most {limit}. Nothing was sent."
            ).format(count=len(outgoing.content), smtp=account.smtp.name, limit=limit),
        )
    await client.mail(outgoing.sender)
    for recipient in outgoing.recipients:
        try:
            await client.rcpt(recipient)
        except aiosmtplib.SMTPRecipientRefused as error:
            raise _refused(error.code, error.message, recipient) from error


async def _hand_over(
    client: aiosmtplib.SMTP, server: MailServer, outgoing: OutgoingMessage
) -> None:
    try:
        async with asyncio.timeout(DATA_TIMEOUT_S):
            await client.data(outgoing.content, timeout=DATA_TIMEOUT_S)
    # The server answered, so the outcome is known: nothing was sent.
    except aiosmtplib.SMTPDataError:
        raise
    except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
        raise MailError(
            "outcome_unknown",
            _(
                "The connection to {server} was lost while the mail was being transferred: it may have "
                "been sent. Check before you send it again; a duplicate has the same message_id."
            ).format(server=server.name),
            {"message_id": outgoing.message_id},
        ) from error


@contextlib.contextmanager
def _explained(server: MailServer) -> Iterator[None]:
    """Convert SMTP errors into MailError; the server's text is truncated and marked as a quotation."""
    name = server.name
    try:
        yield
    except aiosmtplib.SMTPAuthenticationError as error:
        raise _login_refused(error.code, name) from error
    except aiosmtplib.SMTPResponseException as error:
        raise _error_from_reply(error.code, error.message, name) from error
    except ssl.SSLError as error:
        raise MailError(
            "tls_failed",
            _("No secure connection to {name}: {reason}. Nothing was sent.").format(
                name=name, reason=_reason(error)
            ),
        ) from error
    except (TimeoutError, aiosmtplib.SMTPTimeoutError) as error:
        raise MailError(
            "timeout", _("{name} did not answer in time. Nothing was sent.").format(name=name)
        ) from error
    except (OSError, aiosmtplib.SMTPException) as error:
        raise _unreached(error, name) from error


def _unreached(error: Exception, name: str) -> MailError:
    """Return the error for a failed or aborted connection; aiosmtplib wraps the cause."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLError):
        return MailError(
            "tls_failed",
            _("No secure connection to {name}: {reason}. Nothing was sent.").format(
                name=name, reason=_reason(cause)
            ),
        )
    if isinstance(error, aiosmtplib.SMTPException) and "starttls" in str(error).lower():
        return MailError(
            "tls_failed",
            _(
                "{name} does not support STARTTLS. Nothing was sent, because the mail would be "
                "unencrypted."
            ).format(name=name),
        )
    return MailError(
        "unreachable",
        _("{name}: {reason}. Nothing was sent.").format(name=name, reason=_reason(cause)),
    )


def _error_from_reply(code: int, text: str, name: str) -> MailError:
    quote = f"{name} answered: {code} {one_line(text, MAX_ERROR_CHARS)!r}. Nothing was sent."
    if code in _NO_LOGIN:
        return _login_refused(code, name)
    if _TOO_LARGE in text:
        return MailError("too_large", _("The mail is too large. {quote}").format(quote=quote))
    if code in _FULL:
        return MailError("mailbox_full", _("A mailbox is full. {quote}").format(quote=quote))
    if code in _LATER:
        return MailError(
            "try_later",
            _("The server is temporarily unable to accept mail; try again later. {quote}").format(
                quote=quote
            ),
        )
    return MailError("refused", quote)


def _login_refused(code: int, name: str) -> MailError:
    # Without the server's text: it could repeat the password.
    return MailError(
        "auth_failed",
        _(
            "{name} rejected the user name or password ({code}). A human must correct the secret of "
            "the mail account. Nothing was sent."
        ).format(name=name, code=code),
    )


def _refused(code: int, text: str, recipient: str) -> MailError:
    quote = f"{code} {one_line(text, MAX_ERROR_CHARS)!r}. Nothing was sent."
    if code in _FULL:
        return MailError(
            "mailbox_full",
            _("The mailbox of {recipient} is full: {quote}").format(
                recipient=recipient, quote=quote
            ),
        )
    if code in _LATER:
        return MailError(
            "try_later",
            _("{recipient} cannot be reached now; try again later: {quote}").format(
                recipient=recipient, quote=quote
            ),
        )
    return MailError(
        "unknown_recipient",
        _("{recipient} is not accepted: {quote}").format(recipient=recipient, quote=quote),
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid ({one_line(error.verify_message, MAX_ERROR_CHARS)})"
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror, MAX_ERROR_CHARS)
    return one_line(str(error) or type(error).__name__, MAX_ERROR_CHARS)
