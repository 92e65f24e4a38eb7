"""Read the agent's mailbox over IMAP, in a thread.

A folder is opened read-only unless a message is to be marked. Every wait has a timeout, and cancelling a call
closes its connection.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar

from imap_tools.mailbox import BaseMailBox
from imap_tools.message import MailMessage
from imap_tools.query import AND, Header, UidRange

from choir_agent.egress.event_loop import connect_from_thread
from choir_agent.tools.mail.account import mail_errors_as_failures
from choir_agent.tools.mail.received_message import message_details, message_summary
from choir_agent.tools.mail.requests import MailQuery, MessageRequest
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.mail.account import MailAccount
from choir_common.mail.imap import MailboxConnection, SocketTracker, explain_errors
from choir_common.wire.model import JsonObject

T = TypeVar("T")

MAX_MESSAGE_BYTES = 30_000_000
CANCEL_TIMEOUT_S = 2.0


class Mailbox:
    """One connection to one folder of an account."""

    def __init__(self, account: MailAccount, folder: str) -> None:
        self._account = account
        self._folder = folder
        self._socket = SocketTracker()
        self._opener = _EgressSocketOpener(asyncio.get_running_loop())

    async def list(self, query: MailQuery, limit: int) -> JsonObject:
        """Count the messages that match the query and summarise the newest of them."""
        return await self._run_in_thread(lambda box: self._list(box, query, limit), read_only=True)

    async def fetch(self, workspace: Workspace, extract: MessageRequest) -> JsonObject:
        """Return one message; it is marked as read only if the request says so."""
        return await self._run_in_thread(
            lambda box: self._fetch(box, workspace, extract), read_only=not extract.mark_read
        )

    async def _run_in_thread(self, work: Callable[[BaseMailBox], T], *, read_only: bool) -> T:
        """Run `work` in a thread; raises ToolFailed for every error that can occur."""
        visit = asyncio.create_task(asyncio.to_thread(self._blocking, work, read_only))
        try:
            return await asyncio.shield(visit)
        except asyncio.CancelledError:
            self._socket.close()
            # A thread cannot be cancelled; closing its socket makes it fail soon.
            await asyncio.wait({visit}, timeout=CANCEL_TIMEOUT_S)
            raise

    def _blocking(self, work: Callable[[BaseMailBox], T], read_only: bool) -> T:
        with mail_errors_as_failures(), explain_errors(self._account.imap, self._folder):
            box = MailboxConnection(self._account.imap, self._opener, self._socket)
            try:
                box.log_in(self._account)
                box.folder.set(self._folder, readonly=read_only)
                return work(box)
            finally:
                box.leave()

    def _list(self, box: BaseMailBox, query: MailQuery, limit: int) -> JsonObject:
        status = box.folder.status(self._folder, ["MESSAGES", "UNSEEN", "UIDNEXT", "UIDVALIDITY"])
        uids = _matching(box, query)
        newest = uids[-limit:]
        messages = (
            box.fetch(
                uid_list=[str(uid) for uid in newest], mark_seen=False, headers_only=True, bulk=50
            )
            if newest
            else ()
        )
        return {
            "folder": self._folder,
            "uid_validity": status["UIDVALIDITY"],
            "newest_uid": status["UIDNEXT"] - 1,
            "messages_in_folder": status["MESSAGES"],
            "unread_in_folder": status["UNSEEN"],
            "count": len(uids),
            "messages": [message_summary(message) for message in reversed(list(messages))],
        }

    def _fetch(self, box: BaseMailBox, workspace: Workspace, extract: MessageRequest) -> JsonObject:
        # Read the size first: fetching a huge message would fill the memory.
        head = _fetch_message(box, extract.uid, headers_only=True)
        if head.size_rfc822 > MAX_MESSAGE_BYTES:
            raise ToolFailed(
                "too_large",
                f"The message has {head.size_rfc822} bytes; the limit is {MAX_MESSAGE_BYTES}.",
                message_summary(head),
            )
        message = _fetch_message(box, extract.uid, headers_only=False)
        details = message_details(message, workspace, extract)
        if extract.mark_read:
            box.flag(str(extract.uid), "\\Seen", True)
            details["read"] = True
        return {"folder": self._folder, **details}


class _EgressSocketOpener:
    """Opens the connection with the event loop, which knows the way to the network."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def open(self, host: str, port: int, timeout_s: float | None) -> socket.socket:
        """Return a blocking connected socket; raises OSError."""
        return connect_from_thread(self._loop, host, port, timeout_s)


def _matching(box: BaseMailBox, query: MailQuery) -> list[int]:
    criteria = _criteria(query)
    # Some servers reject a charset, so send one only if it is needed.
    charset = None if str(criteria).isascii() else "UTF-8"
    uids = sorted(int(uid) for uid in box.uids(criteria, charset=charset))
    # `n:*` includes the last message even if its UID is lower (RFC 3501, 6.4.8).
    return [uid for uid in uids if query.since_uid is None or uid > query.since_uid]


def _criteria(query: MailQuery) -> AND | str:
    if query == MailQuery():
        return "ALL"
    return AND(
        uid=None if query.since_uid is None else UidRange(str(query.since_uid + 1), "*"),
        date_gte=query.since_date,
        date_lt=query.before_date,
        seen=False if query.unread else None,
        from_=query.sender,
        to=query.to,
        subject=query.subject,
        text=query.text,
        header=Header("Message-ID", query.message_id) if query.message_id else None,
    )


def _fetch_message(box: BaseMailBox, uid: int, *, headers_only: bool) -> MailMessage:
    messages = list(box.fetch(uid_list=str(uid), mark_seen=False, headers_only=headers_only))
    if not messages:
        raise ToolFailed("not_found", f"There is no message {uid} in this folder; list it again.")
    return messages[0]
