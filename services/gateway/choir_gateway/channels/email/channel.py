"""The channel of one mailbox: receives mail of configured users, sends the agent's messages."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from choir_common.errors import NotFound
from choir_common.i18n import _
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import DeliveryReceipt, OutboundMessage
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.email.mailbox_watcher import MailboxWatcher
from choir_gateway.channels.email.notes import NoteMailer
from choir_gateway.channels.email.sender import EmailSender
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.strangers import StrangerReplies


class EmailChannel:
    """Channel of one gateway."""

    def __init__(
        self,
        name: str,
        *,
        watcher: MailboxWatcher,
        sender: EmailSender,
        notes: NoteMailer,
        strangers: StrangerReplies,
        spool: FileSpool,
    ) -> None:
        self._name = name
        self._watcher = watcher
        self._sender = sender
        self._notes = notes
        self._strangers = strangers
        self._spool = spool

    async def run(self) -> None:
        """Receive mail until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watcher.run())
            tasks.create_task(self._notes.run())
            tasks.create_task(self._strangers.run())

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message to a user; raises as `EmailSender.deliver`. A correction is a new mail."""
        if message.edits is not None and message.edits.message_id is not None:
            self._notes.note_correction(message.dm, message.edits.message_id)
        return await self._sender.deliver(message, user_id)

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Do nothing: typing, drafts and progress cards would be too many mails."""

    @asynccontextmanager
    async def open_file(self, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises NotFound if it was deleted."""
        yield await self._spool.open_upload(ref)

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise NotFound: mail arrives over IMAP."""
        raise NotFound(_("The mailbox {name!r} has no webhook.").format(name=self._name))

    def state(self) -> ComponentStatus:
        """Return that it works, with the reason if no mail arrives or the last one was not sent."""
        detail = self._watcher.error or self._sender.error
        return ComponentStatus(name=self._name, ok=True, detail=detail)
