"""Recognition of mail that no person wrote: replies of machines, lists, delivery reports. Pure.

Such mail is no message, and an answer to it could begin a loop (RFC 3834).
"""

from email.message import Message

from choir_gateway.channels.email.authentication import Headers

BULK = frozenset({"bulk", "junk", "list", "auto_reply"})
LIST_HEADERS = ("list-id", "list-post", "list-unsubscribe", "mailing-list")
REPLY_HEADERS = ("x-autoreply", "x-autorespond", "x-autoresponse")
REPORTS = ("multipart/report", "message/delivery-status", "message/disposition-notification")
SPAM_HEADERS = ("x-spam", "x-spam-flag", "x-spam-status")
MACHINES = ("mailer-daemon@", "postmaster@", "noreply@", "no-reply@")


def find_automatic_sign(headers: Headers, message: Message, sender: str) -> str:
    """Return the sign that a mail is automatic; an empty text if a person seems to have written it."""
    values = {name: value.strip().casefold() for name, value in reversed(headers)}
    submitted = values.get("auto-submitted", "no").partition(";")[0].strip()
    if submitted not in ("no", ""):
        return f"Auto-Submitted: {submitted[:50]}"
    if values.get("precedence", "") in BULK:
        return f"Precedence: {values['precedence']}"
    for name in (*LIST_HEADERS, *REPLY_HEADERS):
        if name in values:
            return name
    if values.get("return-path", "") == "<>":
        return "an empty Return-Path"
    if message.get_content_type() in REPORTS:
        return message.get_content_type()
    if sender.casefold().startswith(MACHINES):
        return "the sender is a program"
    return ""


def find_spam_sign(headers: Headers) -> str:
    """Return the header by which a mail server says that a mail is spam; an empty text if none does."""
    for name, value in headers:
        if name in SPAM_HEADERS and value.strip().casefold().startswith("yes"):
            return name
    return ""
