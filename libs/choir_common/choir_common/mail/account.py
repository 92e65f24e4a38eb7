"""A mail account: its servers, and how they may be reached."""

import ipaddress
from dataclasses import dataclass, field

from choir_common.i18n import _
from choir_common.mail.errors import MailError
from choir_common.wire.config_parts import MailSecurity

SMTP_TLS_PORT = 465
IMAP_TLS_PORT = 993


@dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server and the encryption of the connection to it."""

    host: str
    port: int
    security: MailSecurity

    @property
    def name(self) -> str:
        """Return its name within a sentence."""
        return f"the mail server {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class MailAccount:
    """A mail account with its login."""

    smtp: MailServer
    imap: MailServer
    user: str
    password: str = field(repr=False)
    address: str


def make_server(
    host: str, port: int, security: MailSecurity | None, *, tls_port: int
) -> MailServer:
    """Return a server; without a setting its port decides on the encryption.

    Raises MailError if the setting requires an unencrypted connection to another machine.
    """
    security_mode = security or ("tls" if port == tls_port else "starttls")
    if security_mode == "none" and not is_loopback(host):
        raise MailError(
            "not_configured",
            _(
                "The mail account requires an unencrypted connection to {host}. Password and mail would "
                "be readable in transit: security `none` is allowed only for a server on this machine."
            ).format(host=host),
        )
    return MailServer(host, port, security_mode)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
