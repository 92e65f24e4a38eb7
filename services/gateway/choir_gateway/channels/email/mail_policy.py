"""Decision by its headers whether a mail is a user's: configured, authenticated, not automatic. Pure.

It also finds the strangers who may be told that they can ask for a conversation.
"""

from dataclasses import dataclass

import structlog
from imap_tools.message import MailMessage

from choir_common.wire.channel_config import MailboxConfig
from choir_common.wire.messages import DmBinding
from choir_common.wire.trigger_config import MAX_SENDER
from choir_gateway.channels.email.authentication import Headers, find_doubt, find_sender
from choir_gateway.channels.email.automatic_mail import find_automatic_sign, find_spam_sign
from choir_gateway.channels.email.mail_parser import (
    find_answered,
    find_message_id,
    read_headers,
)
from choir_gateway.channels.email.message_ids import is_own
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.strangers import Stranger

log = structlog.get_logger("choir.gateway.email")


@dataclass(frozen=True, slots=True)
class Outsider:
    """A sender who is nobody in `dms`."""

    address: str
    doubt: str
    """Why the address is not proven; empty if it is."""
    is_automatic: bool


class MailPolicy:
    """Policy of one mailbox."""

    def __init__(
        self,
        gateway: str,
        mailbox: MailboxConfig,
        *,
        address: str,
        conversations: ConversationDirectory,
    ) -> None:
        self._gateway = gateway
        self._mailbox = mailbox
        self._address = address.casefold()
        self._conversations = conversations

    def find_dm(self, head: MailMessage) -> DmBinding | None:
        """Return the conversation of a mail's sender; None if the mail is to be ignored."""
        headers = read_headers(head)
        sender = find_sender(headers)
        dm = self._find_configured(sender) if sender else None
        if sender is None or dm is None:
            log.debug("mail of a stranger ignored", gateway=self._gateway)
            return None
        doubt = self._find_doubt(headers, sender)
        if doubt:
            # The sender may be forged, so the user is not told either.
            log.warning("mail with an unproven sender refused", dm=dm.name, reason=doubt)
            return None
        if self._is_own(headers, sender):
            log.warning("own mail ignored", gateway=self._gateway)
            return None
        sign = find_automatic_sign(headers, head.obj, sender)
        if sign:
            log.info("automatic mail ignored", dm=dm.name, sign=sign)
            return None
        return dm

    def find_stranger(self, head: MailMessage) -> Stranger | None:
        """Return the sender of a mail that may be answered although nobody knows the sender.

        The sender must be proven as that of a user. A mail is not answered either if it was not addressed to
        this mailbox (RFC 3834), if it answers Choir's own mail, as programs for tickets do from ever new
        addresses, or if the server marked it as spam.
        """
        headers = read_headers(head)
        sender = find_sender(headers)
        if sender is None or self._find_configured(sender) or self._find_doubt(headers, sender):
            return None
        recipients = {it.email.casefold() for it in (*head.to_values, *head.cc_values)}
        if self._address not in recipients or self._is_own(headers, sender):
            return None
        if find_automatic_sign(headers, head.obj, sender) or find_spam_sign(headers):
            return None
        if any(is_own(it) for it in find_answered(headers)):
            return None
        name = head.from_values.name if head.from_values else ""
        return Stranger(sender.lower(), name)

    def find_outsider(self, head: MailMessage) -> Outsider | None:
        """Return the sender of a mail that a trigger may take; None for mail of users and of Choir itself.

        Automatic mail is allowed, except what answers mail of Choir: the message of the agent that it
        would lead to could be answered by the same machine again.
        """
        headers = read_headers(head)
        sender = find_sender(headers)
        if sender is None or len(sender) > MAX_SENDER or self._find_configured(sender):
            return None
        if self._is_own(headers, sender):
            return None
        is_automatic = bool(find_automatic_sign(headers, head.obj, sender))
        if is_automatic and any(is_own(it) for it in find_answered(headers)):
            log.info("automatic answer to own mail ignored", gateway=self._gateway)
            return None
        return Outsider(sender, self._find_doubt(headers, sender), is_automatic=is_automatic)

    def _find_doubt(self, headers: Headers, sender: str) -> str:
        mailbox = self._mailbox
        return find_doubt(
            headers, sender, authserv_id=mailbox.authserv_id, check=mailbox.sender_check
        )

    def _is_own(self, headers: Headers, sender: str) -> bool:
        return sender.casefold() == self._address or is_own(find_message_id(headers))

    def _find_configured(self, sender: str) -> DmBinding | None:
        """Return the DM of an address; mail servers do not distinguish upper and lower case."""
        for dm in self._conversations.by_name.values():
            if dm.gateway == self._gateway and dm.user_id.casefold() == sender.casefold():
                return dm
        return None
