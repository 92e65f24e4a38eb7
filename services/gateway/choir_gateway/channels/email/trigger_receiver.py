"""Receiver of mail that starts work: mail of nobody in `dms` is offered to control for its triggers.

Nobody gets an answer. Mail above a trigger's rate waits in the mailbox, so that users' mail goes on.
"""

import asyncio
from datetime import UTC, datetime
from typing import Literal, Protocol

import structlog
from imap_tools.message import MailMessage

from choir_common.backoff import Backoff
from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError, InvalidRequest, NotFound, TooLarge
from choir_common.wire.triggers import MailOffer
from choir_gateway.channels.email.mail_policy import MailPolicy
from choir_gateway.channels.email.trigger_mail import make_content, make_offer, quotes_own

log = structlog.get_logger("choir.gateway.email")

FIRST_WAIT_S = 0.2
MAX_WAIT_S = 10.0
MailResult = Literal["not_taken", "later", "taken"]


class MailSource(Protocol):
    """Where the content of a mail comes from."""

    async def fetch(self, uid: int, *, headers_only: bool) -> MailMessage | None: ...


class TriggerMailReceiver:
    """Receiver of one mailbox's mail that starts work."""

    def __init__(self, gateway: str, *, control: ControlClient, policy: MailPolicy) -> None:
        self._gateway = gateway
        self._control = control
        self._policy = policy

    async def take(
        self, source: MailSource, head: MailMessage, *, uid: int, mail_id: str
    ) -> MailResult:
        """Offer a mail to the triggers; returns once control has it or refuses it. Safe to repeat."""
        outsider = self._policy.find_outsider(head)
        if outsider is None:
            return "not_taken"
        now = datetime.now(UTC)
        offer = make_offer(head, outsider, gateway=self._gateway, mail_id=mail_id, now=now)
        result = await self._offer(offer)
        if result != "send_content":
            return result
        message = await source.fetch(uid, headers_only=False)
        if message is None:
            return "not_taken"
        if outsider.is_automatic and await asyncio.to_thread(quotes_own, message):
            log.info("automatic answer to own mail ignored", gateway=self._gateway)
            return "not_taken"
        content = await asyncio.to_thread(make_content, message, offer)
        result = await self._offer(offer.model_copy(update={"content": content}))
        return "not_taken" if result == "send_content" else result

    async def _offer(self, offer: MailOffer) -> Literal[MailResult, "send_content"]:
        backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        while True:
            try:
                return (await self._control.offer_mail(offer)).outcome
            except (NotFound, InvalidRequest, TooLarge) as error:
                log.warning("mail refused", gateway=self._gateway, error=error.message)
                return "not_taken"
            except ChoirError as error:
                log.info("mail not stored yet", gateway=self._gateway, error=error.message)
            await asyncio.sleep(backoff.pause_s())
