"""Read a mailbox over IMAP, in a thread: the library blocks.

A folder is opened read-only unless a message is to be marked. Every wait has a timeout, and cancelling a call
closes its connection.
"""

import asyncio
import contextlib
import imaplib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TypeVar

from imap_tools.errors import (
    ImapToolsError,
    MailboxFolderSelectError,
    MailboxLoginError,
)
from imap_tools.mailbox import BaseMailBox
from imap_tools.message import MailMessage
from imap_tools.query import AND, Header, UidRange

from choir_agent.egress.event_loop import connect_from_thread
from choir_agent.tools.mail.account import MailAccount, MailServer
from choir_agent.tools.mail.received_message import message_details, message_summary
from choir_agent.tools.mail.requests import MailQuery, MessageRequest
from choir_agent.tools.mail.text import one_line
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.wire.model import JsonObject

T = TypeVar("T")

RESPONSE_TIMEOUT_S = 20.0
"""Timeout for one response of the server."""
MAX_MESSAGE_BYTES = 30_000_000
MAX_ERROR_CHARS = 300
CANCEL_TIMEOUT_S = 2.0


class Mailbox:
    """One connection to one folder of an account."""

    def __init__(self, account: MailAccount, folder: str) -> None:
        self._account = account
        self._folder = folder
        self._socket = _SocketCloser(asyncio.get_running_loop())

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
        with _explained(self._account.imap, self._folder):
            box = _MailboxConnection(self._account.imap, self._socket)
            try:
                self._log_in(box)
                box.folder.set(self._folder, readonly=read_only)
                return work(box)
            finally:
                _leave(box)

    def _log_in(self, box: BaseMailBox) -> None:
        user, password = self._account.user, self._account.password
        if user.isascii() and password.isascii():
            box.login(user, password, initial_folder=None)
        else:
            box.login_utf8(user, password, initial_folder=None)

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


class _SocketCloser:
    """Closes the socket of a client from another thread, also one that is opened later."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        """The agent's event loop, which opens connections."""
        self._client: imaplib.IMAP4 | None = None
        self._cancelled = False

    def register(self, client: imaplib.IMAP4) -> None:
        """Set the client whose socket is open now."""
        self._client = client
        if self._cancelled:
            self.close()

    def close(self) -> None:
        """Shut down the socket, now or as soon as there is one."""
        self._cancelled = True
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.sock.shutdown(socket.SHUT_RDWR)


class _LoopConnection(imaplib.IMAP4):
    """Opens the connection with the event loop, which knows the way to the network."""

    _closer: _SocketCloser

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return connect_from_thread(self._closer.loop, self.host, self.port, timeout)


class _ImapClient(_LoopConnection):
    """An IMAP client that registers itself with `closer` when its socket is open.

    The constructor already talks to the server, so a cancelled call needs the socket before it
    returns.
    """

    def __init__(self, server: MailServer, closer: _SocketCloser) -> None:
        self._closer = closer
        super().__init__(server.host, server.port, RESPONSE_TIMEOUT_S)

    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        super().open(host, port, timeout)
        self._closer.register(self)


class _ImapTlsClient(imaplib.IMAP4_SSL, _LoopConnection):
    """The same over TLS from the start."""

    def __init__(self, server: MailServer, closer: _SocketCloser) -> None:
        self._closer = closer
        context = ssl.create_default_context()
        super().__init__(server.host, server.port, ssl_context=context, timeout=RESPONSE_TIMEOUT_S)

    def open(self, host: str = "", port: int | None = 993, timeout: float | None = None) -> None:
        super().open(host, port, timeout)
        self._closer.register(self)


class _MailboxConnection(BaseMailBox):
    """A mailbox connection with the account's security setting."""

    def __init__(self, server: MailServer, closer: _SocketCloser) -> None:
        self._server, self._closer = server, closer
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        match self._server.security:
            case "tls":
                return _ImapTlsClient(self._server, self._closer)
            case "starttls":
                client = _ImapClient(self._server, self._closer)
                try:
                    client.starttls(ssl.create_default_context())
                except BaseException:
                    with contextlib.suppress(OSError):
                        client.shutdown()
                    raise
                return client
            case "none":
                return _ImapClient(self._server, self._closer)


def _leave(box: BaseMailBox) -> None:
    # Errors of the logout are irrelevant, but the socket must be closed in any case.
    with contextlib.suppress(ImapToolsError, imaplib.IMAP4.error, OSError):
        box.logout()
    with contextlib.suppress(OSError):
        box.client.shutdown()


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


@contextlib.contextmanager
def _explained(server: MailServer, folder: str) -> Iterator[None]:
    """Convert connection and protocol errors into ToolFailed."""
    name = f"the mail server {server.host}:{server.port}"
    try:
        yield
    except ToolFailed:
        raise
    except ssl.SSLCertVerificationError as error:
        why = one_line(error.verify_message, MAX_ERROR_CHARS)
        raise ToolFailed(
            "tls_failed", f"The certificate of {name} is not valid ({why})."
        ) from error
    except ssl.SSLError as error:
        raise ToolFailed(
            "tls_failed",
            f"No secure connection to {name}: {one_line(str(error), MAX_ERROR_CHARS)}.",
        ) from error
    except TimeoutError as error:
        raise ToolFailed("timeout", f"{name} did not answer in time.") from error
    except MailboxLoginError as error:
        raise _login_refused(name) from error
    except MailboxFolderSelectError as error:
        raise ToolFailed("not_found", f"There is no folder {folder!r} in the mailbox.") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise ToolFailed("unreachable", f"{name}: {one_line(why, MAX_ERROR_CHARS)}.") from error
    except (imaplib.IMAP4.error, ImapToolsError) as error:
        raise _error_from_server(error, name) from error


def _error_from_server(error: Exception, name: str) -> ToolFailed:
    """Return the error for a server's response; imaplib has one exception for nearly everything."""
    text = one_line(str(error), MAX_ERROR_CHARS)
    if "TLS not supported" in text or "STARTTLS" in text:
        return ToolFailed(
            "tls_failed", f"{name} does not support STARTTLS; the connection would be unencrypted."
        )
    if "AUTHENTICATIONFAILED" in text:
        return _login_refused(name)
    if isinstance(error, imaplib.IMAP4.abort):
        return ToolFailed("unreachable", f"{name} closed the connection: {text!r}.")
    return ToolFailed("mail_server", f"{name} answered: {text!r}.")


def _login_refused(name: str) -> ToolFailed:
    # Without the server's text: it could repeat the password.
    return ToolFailed(
        "auth_failed",
        f"{name} rejected the user name or password. A human must correct the secret of the mail account.",
    )
