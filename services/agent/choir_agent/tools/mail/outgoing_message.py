"""Build a mail message from a call's arguments. Pure, except that it reads the attached files."""

import hashlib
import mimetypes
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email import policy
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import PurePosixPath

from choir_agent.tools.attached_files import MAX_ATTACHED_BYTES, check_unchanged
from choir_agent.tools.tool import AttachedFile, CallContext, ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.mail.account import MailAccount
from choir_common.mail.smtp import OutgoingMessage
from choir_common.wire.model import JsonObject

_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[^\s@<>()\[\],;:\"\\]{1,253}")
_NAMED = re.compile(r"\s*\"?(?P<name>[^\"<>]*?)\"?\s*<(?P<address>[^<>]*)>\s*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")
# 7-bit: not every server accepts 8-bit content.
_POLICY = policy.SMTP.clone(cte_type="7bit")
_GENERIC = "application/octet-stream"


def message_id_for(call_id: str, address: str) -> str:
    """Return the Message-ID for a call: the same call always gives the same one."""
    digest = hashlib.sha256(call_id.encode()).hexdigest()[:32]
    return f"<{digest}.choir@{address.rpartition('@')[2]}>"


def compose_message(
    account: MailAccount, workspace: Workspace, context: CallContext, arguments: JsonObject
) -> OutgoingMessage:
    """Return the message; reads the attached files.

    Raises ToolFailed for an invalid address or header, and for files that are missing, too large, or not
    those that a person was shown.
    """
    to, cc, bcc = (_addresses(arguments, kind) for kind in ("to", "cc", "bcc"))
    if not (to or cc or bcc):
        raise ToolFailed("bad_input", "A mail needs at least one recipient in to, cc or bcc.")
    sender = _address(account.address)
    message_id = message_id_for(context.call_id, sender.addr_spec)
    message = EmailMessage(_POLICY)
    try:
        message["From"] = sender
        for name, addresses in (("To", to), ("Cc", cc)):
            if addresses:
                message[name] = addresses
        message["Message-ID"] = message_id
        message["Date"] = format_datetime(datetime.now(UTC))
        _write(message, arguments)
        _attach(message, workspace, _strings(arguments, "attachments"), context.shown_files)
        content = message.as_bytes()
    except (MessageError, ValueError, UnicodeError) as error:
        raise ToolFailed("bad_input", f"The mail cannot be built: {error}.") from error
    # Deduplicated, in order: an address may be in several fields.
    recipients = dict.fromkeys(address.addr_spec for address in (*to, *cc, *bcc))
    return OutgoingMessage(message_id, sender.addr_spec, tuple(recipients), content)


def _write(message: EmailMessage, arguments: JsonObject) -> None:
    message["Subject"] = _header("subject", str(arguments["subject"]))
    if "in_reply_to" in arguments:
        # Mail programs use either header to build threads.
        for name in ("In-Reply-To", "References"):
            message[name] = _header("in_reply_to", str(arguments["in_reply_to"]))
    message.set_content(str(arguments["text"]))
    if "html" in arguments:
        message.add_alternative(str(arguments["html"]), subtype="html")


def _strings(arguments: JsonObject, name: str) -> list[str]:
    value = arguments.get(name, [])
    return [str(text) for text in value] if isinstance(value, list) else []


def _header(name: str, value: str) -> str:
    if _CONTROL.search(value):
        raise ToolFailed(
            "bad_input",
            f"{name} contains a line break or another control character; a header is one line.",
        )
    return value


def _addresses(arguments: JsonObject, kind: str) -> tuple[Address, ...]:
    return tuple(_address(text) for text in _strings(arguments, kind))


def _address(text: str) -> Address:
    _header("an address", text)
    match = _NAMED.fullmatch(text)
    name, address = (match["name"], match["address"].strip()) if match else ("", text.strip())
    if not _ADDRESS.fullmatch(address):
        raise ToolFailed(
            "bad_input",
            f"{text[:200]!r} is not a valid mail address. Write `name@example.org` or "
            "`Name <name@example.org>`.",
        )
    local, _, domain = address.rpartition("@")
    try:
        return Address(name, local, domain.encode("idna").decode())
    except (ValueError, UnicodeError, MessageError) as error:
        raise ToolFailed(
            "bad_input", f"{text[:200]!r} is not a valid mail address: {error}."
        ) from error


def _attach(
    message: EmailMessage,
    workspace: Workspace,
    paths: list[str],
    approved_files: Sequence[AttachedFile] | None,
) -> None:
    room = MAX_ATTACHED_BYTES
    for path in paths:
        with os.fdopen(workspace.open_file(workspace.canonical(path)), "rb") as file:
            content = file.read(room + 1)
        room -= len(content)
        if room < 0:
            raise ToolFailed(
                "too_large",
                f"The attachments have more than {MAX_ATTACHED_BYTES // 1_000_000} MB in total; "
                "most servers reject such mail. Send fewer, or compress them.",
            )
        check_unchanged(path, content, approved_files)
        name = _header("the file name", PurePosixPath(path).name)
        kind, encoding = mimetypes.guess_type(name)
        main, _, sub = (kind if kind and not encoding else _GENERIC).partition("/")
        # email.message cannot attach raw bytes of these types.
        if main in ("message", "multipart"):
            main, sub = "application", "octet-stream"
        message.add_attachment(content, maintype=main, subtype=sub, filename=name)
