"""Late import of the mail libraries: they take 5 MB, and most agents use no mail.

The import runs in a thread, so that it does not delay a heartbeat.
"""

import asyncio
from typing import TYPE_CHECKING

from choir_agent.tools.tool import CallContext
from choir_agent.tools.workspace import Workspace
from choir_common.mail.account import MailAccount
from choir_common.wire.model import JsonObject

if TYPE_CHECKING:
    from choir_agent.tools.mail.imap import Mailbox


async def open_mailbox(account: MailAccount, folder: str) -> "Mailbox":
    """Return a mailbox; it connects at its first use."""
    mailbox_class = await asyncio.to_thread(_import_mailbox)
    return mailbox_class(account, folder)


async def send_mail(
    account: MailAccount, workspace: Workspace, context: CallContext, arguments: JsonObject
) -> JsonObject:
    """Send a mail; raises the errors of `sending.send_mail`."""
    await asyncio.to_thread(_import_sending)
    from choir_agent.tools.mail import sending  # noqa: PLC0415 - memory, see above

    return await sending.send_mail(account, workspace, context, arguments)


def _import_mailbox() -> "type[Mailbox]":
    from choir_agent.tools.mail.imap import Mailbox  # noqa: PLC0415 - memory, see above

    return Mailbox


def _import_sending() -> None:
    import choir_agent.tools.mail.sending  # noqa: F401, PLC0415 - memory, see above
