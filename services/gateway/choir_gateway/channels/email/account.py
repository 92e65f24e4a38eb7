"""The mail account of a gateway, from its configuration and its secret. Pure."""

from choir_common.mail.account import IMAP_TLS_PORT, SMTP_TLS_PORT, MailAccount, make_server
from choir_common.mail.errors import MailError
from choir_common.wire.channel_config import MAIL_ADDRESS, MailboxConfig


def make_account(mailbox: MailboxConfig, login: str) -> MailAccount:
    """Return the account; `login` is the value of its secret.

    Raises ValueError for a secret that is not `user:password`, without a sender's address, and for an
    unencrypted connection to another machine.
    """
    user, _, password = login.partition(":")
    if not (user and password):
        raise ValueError("its secret is not of the form `user:password`.")
    address = mailbox.address or user
    if not MAIL_ADDRESS.fullmatch(address):
        raise ValueError("the user name is not a mail address, so set `email.address`.")
    try:
        return MailAccount(
            make_server(
                mailbox.smtp_host,
                mailbox.smtp_port,
                mailbox.smtp_security,
                tls_port=SMTP_TLS_PORT,
            ),
            make_server(
                mailbox.imap_host,
                mailbox.imap_port,
                mailbox.imap_security,
                tls_port=IMAP_TLS_PORT,
            ),
            user,
            password,
            address,
        )
    except MailError as error:
        raise ValueError(error.text) from error
