"""Receiver of mail that starts work: mail of nobody in `dms` is offered to control for its triggers.

Nobody gets an answer. Mail above a trigger's rate waits in the mailbox, so that users' mail goes on. Files
are stored as users' files are, until control fetches them, but may not take all the room.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

import structlog
from imap_tools.message import MailMessage

from choir_common.clients.control import ControlClient
from choir_common.errors import TooLarge, Unavailable
from choir_common.wire.attachments import MAX_FILES, Attachment
from choir_common.wire.triggers import MailContent, MailDecision, MailOffer
from choir_gateway.channels.acceptance import repeat_until_accepted
from choir_gateway.channels.email.mail_parser import MailFile, read_files
from choir_gateway.channels.email.mail_policy import MailPolicy
from choir_gateway.channels.email.trigger_mail import make_content, make_offer, quotes_own
from choir_gateway.channels.spool import FileSpool

log = structlog.get_logger("choir.gateway.email")

FILES_SHARE = 0.5
"""The part of the spool that may be full after a stranger's file: the rest is for users' files."""
MailResult = Literal["not_taken", "later", "taken"]


class MailSource(Protocol):
    """Where the content of a mail comes from."""

    async def fetch(self, uid: int, *, headers_only: bool) -> MailMessage | None: ...


class TriggerMailReceiver:
    """Receiver of one mailbox's mail that starts work."""

    def __init__(
        self, gateway: str, *, control: ControlClient, policy: MailPolicy, spool: FileSpool
    ) -> None:
        self._gateway = gateway
        self._control = control
        self._spool = spool
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
        decision = await self._offer(offer)
        if decision.outcome != "send_content":
            return decision.outcome
        message = await source.fetch(uid, headers_only=False)
        if message is None:
            return "not_taken"
        if outsider.is_automatic and await asyncio.to_thread(quotes_own, message):
            log.info("automatic answer to own mail ignored", gateway=self._gateway)
            return "not_taken"
        content, files = await asyncio.to_thread(_parse, message, offer)
        attachments = await self._store_files(files, decision.dms)
        content = content.model_copy(update={"attachments": attachments})
        decision = await self._offer(offer.model_copy(update={"content": content}))
        if decision.outcome == "taken":
            return "taken"
        # A mail that waits is read again.
        for attachment in (it for files_of_dm in attachments.values() for it in files_of_dm):
            await self._spool.remove_upload(attachment.ref)
        return "later" if decision.outcome == "later" else "not_taken"

    async def _store_files(
        self, files: Sequence[MailFile], dms: Sequence[str]
    ) -> dict[str, tuple[Attachment, ...]]:
        """Store the files for each conversation, so that they are erased with it."""
        attachments = dict[str, tuple[Attachment, ...]]()
        for dm in dms:
            copies = [await self._store_file(dm, file) for file in files[:MAX_FILES]]
            attachments[dm] = tuple(it for it in copies if it is not None)
        return attachments

    async def _store_file(self, dm: str, file: MailFile) -> Attachment | None:
        metadata = Attachment(name=file.name, kind=file.kind, mime=file.mime, ref="-")
        pieces = _at_once(file.content)
        try:
            return await self._spool.store_upload(dm, metadata, pieces, share=FILES_SHARE)
        except (TooLarge, Unavailable, OSError) as error:
            log.warning("file of a mail not stored", gateway=self._gateway, error=str(error))
            return None

    async def _offer(self, offer: MailOffer) -> MailDecision:
        decision = await repeat_until_accepted(
            lambda: self._control.offer_mail(offer), self._gateway
        )
        return decision or MailDecision(outcome="not_taken")


def _parse(message: MailMessage, offer: MailOffer) -> tuple[MailContent, tuple[MailFile, ...]]:
    files = tuple(read_files(message))
    return make_content(message, files, offer), files


async def _at_once(content: bytes) -> AsyncIterator[bytes]:
    yield content
