"""The error of mail servers and accounts."""

from choir_common.wire.model import JsonObject


class MailError(Exception):
    """A mail server or an account could not do what was requested.

    `kind` is one of: not_configured, unreachable, tls_failed, auth_failed, timeout, not_found, mail_server,
    unknown_recipient, mailbox_full, too_large, try_later, refused, outcome_unknown. Only after
    outcome_unknown a mail may have been sent.
    """

    def __init__(self, kind: str, text: str, details: JsonObject | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.details = details or {}
