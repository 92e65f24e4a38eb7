"""The connection to the mailbox's folder: listing, fetching, marking, and waiting for new mail.

The library blocks, so each connection has a thread; IDLE would occupy one of the event loop's for minutes.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from imaplib import IMAP4
from typing import TypeVar

from imap_tools.message import MailMessage
from imap_tools.query import AND, UidRange

from choir_common.i18n import _
from choir_common.mail.account import MailAccount
from choir_common.mail.errors import MailError
from choir_common.mail.imap import (
    DirectSocketOpener,
    MailboxConnection,
    SocketTracker,
    explain_errors,
)

T = TypeVar("T")

# Routers forget a silent connection after some minutes, so IDLE is begun again.
IDLE_S = 240.0
POLL_S = 60.0
CANCEL_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class FolderState:
    """The state of a folder when it is opened."""

    uid_validity: int
    last_uid: int


class MailFolder:
    """One connection to one folder; each method raises MailError."""

    def __init__(self, account: MailAccount, folder: str, *, poll_s: float = POLL_S) -> None:
        self._account = account
        self._folder = folder
        self._poll_s = poll_s
        self._closer = SocketTracker()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mailbox")
        self._connection: MailboxConnection | None = None
        self._can_idle = False

    async def open(self, target: str | None) -> FolderState:
        """Connect, log in and open the folder; create the `target` of processed mail if it is missing."""
        return await self._run(lambda: self._open(target))

    async def list_after(self, uid: int) -> list[int]:
        """Return the UIDs above one, in order."""
        uids = await self._run(lambda: self._search(AND(uid=UidRange(str(uid + 1), "*"))))
        # `n:*` includes the last message even if its UID is lower (RFC 3501, 6.4.8).
        return [it for it in uids if it > uid]

    async def list_since(self, day: date) -> list[int]:
        """Return the UIDs of mail that arrived on a day or later, in order."""
        return await self._run(lambda: self._search(AND(date_gte=day)))

    async def fetch(self, uid: int, *, headers_only: bool) -> MailMessage | None:
        """Return a mail, which stays unread; None if it was deleted."""
        return await self._run(lambda: self._fetch(uid, headers_only))

    async def mark_processed(self, uid: int, target: str | None) -> None:
        """Mark a mail as read, and move it to `target` if that is set."""
        await self._run(lambda: self._mark(uid, target))

    async def wait(self, longest_s: float = IDLE_S) -> None:
        """Wait until there may be new mail: at most some minutes."""
        if self._can_idle:
            await self._run(lambda: self._idle(longest_s))
        else:
            await asyncio.sleep(min(self._poll_s, longest_s))
            # Servers look for new mail when a client asks for news.
            await self._run(self._poll)

    async def close(self) -> None:
        """Close the connection; the thread ends soon."""
        connection = self._connection
        try:
            if connection is not None:
                async with asyncio.timeout(CANCEL_TIMEOUT_S):
                    await self._in_thread(connection.leave)
        except TimeoutError:
            pass
        finally:
            self._closer.close()
            self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        def explained() -> T:
            with explain_errors(self._account.imap, self._folder):
                return work()

        return await self._in_thread(explained)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            # A thread cannot be cancelled; closing its socket makes it fail soon.
            self._closer.close()
            await asyncio.wait({future}, timeout=CANCEL_TIMEOUT_S)
            with contextlib.suppress(MailError, asyncio.CancelledError, asyncio.InvalidStateError):
                future.exception()
            raise

    def _open(self, target: str | None) -> FolderState:
        box = MailboxConnection(self._account.imap, DirectSocketOpener(), self._closer)
        self._connection = box
        box.log_in(self._account)
        # Some servers name IDLE only after the login.
        _, (capabilities, *_) = box.client.capability()
        self._can_idle = b"IDLE" in bytes(capabilities).upper().split()
        if target is not None and not box.folder.exists(target):
            box.folder.create(target)
        status = box.folder.status(self._folder, ["UIDNEXT", "UIDVALIDITY"])
        box.folder.set(self._folder)
        return FolderState(status["UIDVALIDITY"], status["UIDNEXT"] - 1)

    def _search(self, criteria: AND) -> list[int]:
        # A mail that arrives after the search is announced by a new EXISTS, which `_idle` must not miss.
        self._client.untagged_responses.pop("EXISTS", None)
        return sorted(int(uid) for uid in self._box.uids(criteria, charset=None))

    def _fetch(self, uid: int, headers_only: bool) -> MailMessage | None:
        messages = self._box.fetch(uid_list=str(uid), mark_seen=False, headers_only=headers_only)
        return next(iter(messages), None)

    def _mark(self, uid: int, target: str | None) -> None:
        # Not by the library's `flag`, which also deletes what the user has marked as deleted.
        self._client.uid("STORE", str(uid), "+FLAGS.SILENT", "(\\Seen)")
        if target is not None:
            self._box.move([str(uid)], target)

    def _poll(self) -> None:
        self._client.noop()

    def _idle(self, longest_s: float) -> None:
        idle = self._box.idle
        idle.start()  # type: ignore[no-untyped-call]
        try:
            if "EXISTS" not in self._client.untagged_responses and not _read_buffered(self._client):
                idle.poll(timeout=longest_s)
        finally:
            idle.stop()  # type: ignore[no-untyped-call]

    @property
    def _box(self) -> MailboxConnection:
        if self._connection is None:
            raise MailError("unreachable", _("The mailbox is not open."))
        return self._connection

    @property
    def _client(self) -> IMAP4:
        return self._box.client


def _read_buffered(client: IMAP4) -> bool:
    """Read the responses that arrived together with the last one; return whether there were any.

    The socket does not report them: they are in the buffers of TLS and of the library.
    """
    timeout_s = client.sock.gettimeout()
    client.sock.settimeout(0)
    is_any = False
    try:
        while client._get_line():
            is_any = True
    except OSError:
        return is_any
    except IMAP4.abort as error:
        # "EOF" is also what the library calls "nothing more"; a real end shows in the next command.
        if "EOF" not in str(error):
            raise
        return is_any
    finally:
        client.sock.settimeout(timeout_s)
    return is_any
