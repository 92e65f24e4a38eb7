"""Rules of mail that starts work: which triggers match it, and what templates show of it. Pure."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from choir_common.i18n import _
from choir_common.redactor import Redactor
from choir_common.wire.attachments import MAX_FILE_NAME, MAX_FILES, Attachment
from choir_common.wire.config import Config
from choir_common.wire.model import JsonObject
from choir_common.wire.trigger_config import MailTriggerConfig, TriggerConfig
from choir_common.wire.triggers import MailContent, MailOffer

MAX_MAIL_BYTES = 30_000_000
"""Larger mails are not taken: the gateway would have to hold them in memory."""


def find_matches(config: Config, offer: MailOffer) -> Iterator[tuple[str, TriggerConfig]]:
    """Yield the triggers whose mailbox, sender and subject a mail has."""
    for name, trigger in config.triggers.items():
        rule = trigger.mail
        if rule is not None and rule.gateway == offer.gateway and _matches(rule, offer):
            yield name, trigger


def find_refusal(trigger: TriggerConfig, offer: MailOffer) -> str:
    """Return why a trigger does not take a mail that matches; empty if it does."""
    if trigger.mail is not None and trigger.mail.require_authenticated and offer.doubt:
        return _("the sender is not authenticated: {doubt}").format(doubt=offer.doubt)
    if offer.size > MAX_MAIL_BYTES:
        return _("the mail is larger than {megabytes} MB").format(
            megabytes=MAX_MAIL_BYTES // 1000000
        )
    return ""


def make_values(offer: MailOffer, content: MailContent) -> JsonObject:
    """Return the values for the places of a template; all are from outside."""
    return {
        "from": offer.sender,
        "from_name": offer.sender_name,
        "to": offer.to,
        "subject": offer.subject,
        "date": offer.sent_at.isoformat(timespec="seconds"),
        "text": content.text,
        "attachments": [{"name": it.name, "size": it.size} for it in content.files],
        "authenticated": not offer.doubt,
    }


def clean_files(files: Sequence[Attachment], redactor: Redactor) -> tuple[Attachment, ...]:
    """Return the files with known secrets masked in their names, as those of messages are."""
    return tuple(
        file.model_copy(
            update={
                "name": redactor.redact(file.name.replace("\x00", ""))[-MAX_FILE_NAME:] or "file"
            }
        )
        for file in files
    )


def describe_missing(count: int) -> str:
    """Return a remark about attached files that the gateway did not store; empty if it stored all."""
    if count <= 0:
        return ""
    return (
        f"\n\n[Choir] {count} more attached {'file is' if count == 1 else 'files are'} missing: a message "
        f"has at most {MAX_FILES}, and the gateway keeps none that is too large or for which it has no room."
    )


def _matches(rule: MailTriggerConfig, offer: MailOffer) -> bool:
    sender = offer.sender.casefold()
    is_from = any(fnmatchcase(sender, pattern.casefold()) for pattern in rule.senders)
    return is_from and rule.subject.casefold() in offer.subject.casefold()
