"""`choir.email.send`: send a mail from the agent's account.

Runs without locks, after the commitment is durable; sends through `mail.smtp`. The Message-ID is derived from
the call's id, so that a duplicate is recognisable.
"""

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.mail.account import mail_account
from choir_agent.tools.mail.loading import send_mail
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_agent.tools.workspace import Workspace
from choir_common.eventlog.tool_results import OUTSIDE_OUTPUT
from choir_common.wire.model import JsonObject

# Longer than the timeouts in `smtp`, which knows whether something was sent.
TIMEOUT_MS = 120_000
MAX_TEXT = 200_000
MAX_HTML = 500_000
_ADDRESSES: JsonObject = {
    "type": "array",
    "items": {"type": "string", "minLength": 3, "maxLength": 320},
    "maxItems": 50,
}

MANIFEST = ToolManifest(
    LlmView(
        name="choir.email.send",
        description=(
            "Send an email from your mail account to all recipients, or to none if one of them is refused. "
            "`attachments` are files of the workspace, 18 MB in all. To answer a mail, give its "
            "`message_id` as `in_reply_to`. If the outcome is unknown, do not send again."
        ),
        parameters={
            "type": "object",
            "properties": {
                "to": _ADDRESSES,
                "cc": _ADDRESSES,
                "bcc": _ADDRESSES,
                "subject": {"type": "string", "maxLength": 500},
                "text": {"type": "string", "maxLength": MAX_TEXT},
                "html": {
                    "type": "string",
                    "maxLength": MAX_HTML,
                    "description": "the same in HTML, beside the text",
                },
                "attachments": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1},
                    "maxItems": 20,
                    "description": "paths relative to the workspace",
                },
                "in_reply_to": {"type": "string", "pattern": "^<[^<>\\s]{3,300}>$"},
            },
            "required": ["to", "subject", "text"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OUTSIDE_OUTPUT,
        flow=DataFlow(sends="mail"),
        timeout_ms=TIMEOUT_MS,
        side_effect="external",
        # Servers do not deduplicate by Message-ID: a repetition sends a second mail.
        idempotent=False,
        secret_resources=("email",),
    ),
)


class EmailSendTool:
    """Sends mail."""

    manifest = MANIFEST

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Send the mail; raises ToolFailed with the server's error, or if the outcome is unknown."""
        account = mail_account(context)
        output = await send_mail(account, self._workspace, context, arguments)
        recipients = output["recipients"]
        count = len(recipients) if isinstance(recipients, list) else 0
        return ToolOutput(output, f"sent to {count} recipients")
