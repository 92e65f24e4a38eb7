"""Read the agent's mail account from its settings and decide how its servers may be reached."""

import ipaddress
from dataclasses import dataclass, field

from choir_agent.tools.tool import CallContext, ToolFailed
from choir_common.wire.config import MailSecurity

SMTP_TLS_PORT = 465
IMAP_TLS_PORT = 993


@dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server and the encryption of the connection to it."""

    host: str
    port: int
    security: MailSecurity


@dataclass(frozen=True, slots=True)
class MailAccount:
    """The agent's mail account."""

    smtp: MailServer
    imap: MailServer
    user: str
    password: str = field(repr=False)
    address: str


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
    return MailAccount(
        _server(config.smtp_host, config.smtp_port, config.smtp_security, SMTP_TLS_PORT),
        _server(config.imap_host, config.imap_port, config.imap_security, IMAP_TLS_PORT),
        user,
        password,
        address,
    )


def _server(host: str, port: int, security: MailSecurity | None, tls_port: int) -> MailServer:
    security_mode = security or ("tls" if port == tls_port else "starttls")
    if security_mode == "none" and not _is_here(host):
        raise ToolFailed(
            "not_configured",
            f"The mail account requires an unencrypted connection to {host}. Password and mail "
            "would be readable in transit: security `none` is allowed only for a server on this machine.",
        )
    return MailServer(host, port, security_mode)


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
