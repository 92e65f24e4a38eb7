"""The watcher of one mailbox: connects, reads what is new, waits, and connects again after errors."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from imap_tools.message import MailMessage

from choir_common.backoff import Backoff
from choir_common.mail.account import MailAccount
from choir_common.mail.errors import MailError
from choir_common.wire.channel_config import MailboxConfig
from choir_common.wire.messages import DmBinding
from choir_gateway.channels.email.mail_parser import find_message_id, read_headers
from choir_gateway.channels.email.mailbox import IDLE_S, POLL_S, FolderState, MailFolder
from choir_gateway.channels.email.message_ids import short_id
from choir_gateway.channels.email.read_marks import MailboxMark, MailboxMarkStore
from choir_gateway.channels.email.receiver import MailReceiver
from choir_gateway.channels.email.trigger_receiver import MailResult, TriggerMailReceiver

log = structlog.get_logger("choir.gateway.email")

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0
# Servers lock accounts after some wrong passwords.
OPERATOR_FIRST_WAIT_S = 300.0
OPERATOR_MAX_WAIT_S = 3600.0
RETRY_WAITING_S = 30.0
"""Pause before mail is offered again that triggers could not take yet."""
MAX_OFFERED_AGAIN = 20
MAX_WAITING = 1_000
OPERATOR_KINDS = frozenset({"auth_failed", "tls_failed", "not_found", "not_configured"})
"""Errors that only a person can correct."""
LOGIN_HINT = (
    "Many providers need an app password for this. Set it with `choirctl secret set {secret}` "
    "(`user:password`), then `choirctl secret apply`."
)


class MailboxWatcher:
    """Watcher of one mailbox."""

    def __init__(
        self,
        gateway: str,
        mailbox: MailboxConfig,
        *,
        account: MailAccount,
        secret: str,
        receiver: MailReceiver,
        trigger_receiver: TriggerMailReceiver | None,
        marks: MailboxMarkStore,
        poll_s: float = POLL_S,
    ) -> None:
        self._gateway = gateway
        self._mailbox = mailbox
        self._account = account
        self._secret = secret
        self._receiver = receiver
        self._trigger_receiver = trigger_receiver
        self._marks = marks
        self._poll_s = poll_s
        self._offered_at = -RETRY_WAITING_S
        self._backoff = Backoff(FIRST_WAIT_S, MAX_WAIT_S)
        self._operator_backoff = Backoff(OPERATOR_FIRST_WAIT_S, OPERATOR_MAX_WAIT_S)
        self.error = "has not reached the mailbox yet"
        """Why no mail arrives; empty while it does."""

    async def run(self) -> None:
        """Receive mail until cancelled."""
        while True:
            try:
                await self._follow_once()
            except MailError as error:
                self.error = self._explain(error)
                log.warning("no mail received; retrying", gateway=self._gateway, error=self.error)
                is_operators = error.kind in OPERATOR_KINDS
                backoff = self._operator_backoff if is_operators else self._backoff
                await asyncio.sleep(backoff.pause_s())
            except Exception as error:  # outermost loop of a mailbox: other gateways continue
                log.exception("mailbox not read", gateway=self._gateway)
                self.error = f"An internal error ({type(error).__name__}); see the gateway's log."
                await asyncio.sleep(MAX_WAIT_S)

    async def _follow_once(self) -> None:
        """Follow one connection to its end; raises MailError."""
        folder = MailFolder(self._account, self._mailbox.folder, poll_s=self._poll_s)
        try:
            state = await folder.open(self._mailbox.move_to)
            mark, uids = await self._resume(folder, state)
            while True:
                for uid in (*self._due_again(mark), *uids):
                    mark = await self._read(folder, uid, mark)
                self.error = ""
                self._backoff.reset()
                self._operator_backoff.reset()
                await folder.wait(RETRY_WAITING_S if mark.waiting else IDLE_S)
                uids = await folder.list_after(mark.uid)
        finally:
            await folder.close()

    async def _resume(
        self, folder: MailFolder, state: FolderState
    ) -> tuple[MailboxMark, Sequence[int]]:
        """Return the mark to continue from, and the mail to read first."""
        name = f"{self._account.user}@{self._account.imap.host}/{self._mailbox.folder}"
        mark = await self._marks.load()
        if mark is None or mark.mailbox != name:
            # Mail from before the gateway was configured is not for the agent.
            today = datetime.now(UTC).date().isoformat()
            mark = MailboxMark(name, state.uid_validity, state.last_uid, today)
            await self._marks.store(mark)
        if mark.uid_validity == state.uid_validity:
            return mark, await folder.list_after(mark.uid)
        log.warning("the mail server assigned new UIDs", gateway=self._gateway)
        uids = await folder.list_since(mark.since)
        return MailboxMark(name, state.uid_validity, 0, mark.accepted_on, mark.recent), uids

    async def _read(self, folder: MailFolder, uid: int, mark: MailboxMark) -> MailboxMark:
        """Read one mail; return the mark after it, which is on disk."""
        head = await folder.fetch(uid, headers_only=True)
        dm = self._receiver.find_dm(head) if head is not None else None
        if head is None or dm is None:
            return await self._read_outsiders(folder, head, uid=uid, mark=mark)
        mail_id = _mail_id(head)
        # Users cannot take each other's ids.
        key = f"{dm.name}:{mail_id}"
        if key not in mark.recent:
            try:
                await self._accept(folder, head, dm, uid=uid, mail_id=mail_id)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                # A mail that cannot be parsed must not stop those after it.
                log.exception("mail not read", gateway=self._gateway, uid=uid)
        mark = mark.after_accepted(uid, key, datetime.now(UTC))
        await self._marks.store(mark)
        await folder.mark_processed(uid, self._mailbox.move_to)
        return mark

    def _due_again(self, mark: MailboxMark) -> Sequence[int]:
        """Return mail to offer again; every time it is some of what waits."""
        now = time.monotonic()
        if not mark.waiting or now - self._offered_at < RETRY_WAITING_S:
            return ()
        self._offered_at = now
        return mark.waiting[:MAX_OFFERED_AGAIN]

    async def _read_outsiders(
        self, folder: MailFolder, head: MailMessage | None, *, uid: int, mark: MailboxMark
    ) -> MailboxMark:
        """Read a mail that is of no user; return the mark after it, which is on disk."""
        result: MailResult = "not_taken"
        if head is not None and self._trigger_receiver is not None:
            try:
                result = await self._trigger_receiver.take(
                    folder, head, uid=uid, mail_id=_mail_id(head)
                )
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                # A mail that cannot be parsed must not stop those after it.
                log.exception("mail not read", gateway=self._gateway, uid=uid)
        match result:
            case "taken":
                mark = mark.after_taken(uid, datetime.now(UTC))
            case "later" if uid in mark.waiting or len(mark.waiting) < MAX_WAITING:
                mark = mark.after_waiting(uid)
            case "later":
                log.error("too many mails wait; not taken", gateway=self._gateway, uid=uid)
                mark = mark.after(uid)
            case "not_taken":
                mark = mark.after(uid)
        await self._marks.store(mark)
        if result == "not_taken" and head is not None:
            self._receiver.invite_stranger(head)
        if result == "taken":
            await folder.mark_processed(uid, self._mailbox.move_to)
        return mark

    async def _accept(
        self, folder: MailFolder, head: MailMessage, dm: DmBinding, *, uid: int, mail_id: str
    ) -> None:
        # Read the size first: fetching a huge mail would fill the memory.
        if self._receiver.refuse_size(dm, head.size_rfc822):
            return
        message = await folder.fetch(uid, headers_only=False)
        if message is not None:
            await self._receiver.accept(message, dm, mail_id)

    def _explain(self, error: MailError) -> str:
        if error.kind == "auth_failed":
            return f"{error.text} {LOGIN_HINT.format(secret=self._secret)}"
        return error.text


def _mail_id(head: MailMessage) -> str:
    """Return the short id of a mail; one without a Message-ID is identified by its headers."""
    message_id = find_message_id(read_headers(head))
    if message_id:
        return short_id(message_id)
    return f"m.{hashlib.blake2s(bytes(head.obj), digest_size=16).hexdigest()}"
