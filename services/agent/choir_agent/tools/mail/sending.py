"""Send the mail that a call describes."""

import asyncio

from choir_agent.tools.mail.account import mail_errors_as_failures
from choir_agent.tools.mail.outgoing_message import compose_message
from choir_agent.tools.tool import CallContext
from choir_agent.tools.workspace import Workspace
from choir_common.mail.account import MailAccount
from choir_common.mail.smtp import send_message
from choir_common.wire.model import JsonObject


async def send_mail(
    account: MailAccount, workspace: Workspace, context: CallContext, arguments: JsonObject
) -> JsonObject:
    """Send the mail described by the arguments to all its recipients or to none.

    Raises ToolFailed; unless its kind is outcome_unknown, nothing was sent.
    """
    outgoing = await asyncio.to_thread(compose_message, account, workspace, context, arguments)
    with mail_errors_as_failures():
        await send_message(account, outgoing)
    return {
        "message_id": outgoing.message_id,
        "from": outgoing.sender,
        "recipients": [*outgoing.recipients],
        "bytes": len(outgoing.content),
    }
