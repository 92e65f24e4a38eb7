"""Read the agent's mail account from its settings, and report errors of mail servers as those of a tool."""

import contextlib
from collections.abc import Iterator

from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.mail.account import IMAP_TLS_PORT, SMTP_TLS_PORT, MailAccount, make_server
from choir_common.mail.errors import MailError


def mail_account(context: CallContext) -> MailAccount:
    """Return the mail account in the agent's settings.

    Raises ToolFailed if there is none, if its secret is missing or malformed, or if it requires an
    unencrypted connection to another machine.
    """
    config = context.settings.email if context.settings else None
    if config is None:
        raise ToolFailed(
            "not_configured",
            "This agent has no mail account. A human adds one to `email_accounts` of the configuration "
            "and names it in the agent's `defaults.email`.",
        )
    user, colon, password = context.secrets.get("email", "").partition(":")
    if not (user and colon and password):
        raise ToolFailed(
            "not_configured",
            f"The secret {config.secret!r} of the mail account is missing or not of the form "
            "`user:password`. A human has to set it.",
        )
    address = config.address or user
    if "@" not in address:
        raise ToolFailed(
            "not_configured",
            "The mail account has no sender address: its user name is not an address, so set `address`.",
        )
    smtp, imap = (config.smtp_host, config.smtp_port), (config.imap_host, config.imap_port)
    with mail_errors_as_failures():
        return MailAccount(
            make_server(*smtp, config.smtp_security, tls_port=SMTP_TLS_PORT),
            make_server(*imap, config.imap_security, tls_port=IMAP_TLS_PORT),
            user,
            password,
            address,
        )


@contextlib.contextmanager
def mail_errors_as_failures() -> Iterator[None]:
    """Convert MailError into ToolFailed."""
    try:
        yield
    except MailError as error:
        raise ToolFailed(error.kind, error.text, error.details) from error
