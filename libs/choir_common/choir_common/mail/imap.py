"""Connections to mailboxes over IMAP, for use in a thread: the library blocks.

Each response has a timeout. A thread cannot be cancelled, so another thread closes its socket
(`SocketTracker`).
"""

import contextlib
import imaplib
import socket
import ssl
from collections.abc import Iterator
from typing import Protocol

from imap_tools.errors import (
    ImapToolsError,
    MailboxFolderSelectError,
    MailboxLoginError,
)
from imap_tools.mailbox import BaseMailBox

from choir_common.i18n import _
from choir_common.mail.account import MailAccount, MailServer
from choir_common.mail.errors import MailError
from choir_common.mail.text import one_line

RESPONSE_TIMEOUT_S = 20.0
"""Timeout for one response of the server."""
MAX_ERROR_CHARS = 300


class SocketOpener(Protocol):
    """Opens the connections of a client."""

    def open(self, host: str, port: int, timeout_s: float | None) -> socket.socket:
        """Return a blocking connected socket; raises OSError."""
        ...


class DirectSocketOpener:
    """Opener that connects without a proxy."""

    def open(self, host: str, port: int, timeout_s: float | None) -> socket.socket:
        """Return a blocking connected socket; raises OSError."""
        return socket.create_connection((host, port), timeout_s)


class SocketTracker:
    """Knows the socket of a client, to close it from another thread, also if it is opened later."""

    def __init__(self) -> None:
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


class MailboxConnection(BaseMailBox):
    """A mailbox connection with the account's security setting."""

    def __init__(self, server: MailServer, opener: SocketOpener, closer: SocketTracker) -> None:
        self._server, self._opener, self._closer = server, opener, closer
        super().__init__()

    def log_in(self, account: MailAccount) -> None:
        """Log in; raises the errors of the library, which `explain_errors` converts."""
        user, password = account.user, account.password
        if user.isascii() and password.isascii():
            self.login(user, password, initial_folder=None)
        else:
            self.login_utf8(user, password, initial_folder=None)

    def leave(self) -> None:
        """Log out and close the socket."""
        # Errors of the logout are irrelevant, but the socket must be closed in any case.
        with contextlib.suppress(ImapToolsError, imaplib.IMAP4.error, OSError):
            self.logout()
        with contextlib.suppress(OSError):
            self.client.shutdown()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        match self._server.security:
            case "tls":
                return _ImapTlsClient(self._server, self._opener, self._closer)
            case "starttls":
                client = _ImapClient(self._server, self._opener, self._closer)
                try:
                    client.starttls(ssl.create_default_context())
                except BaseException:
                    with contextlib.suppress(OSError):
                        client.shutdown()
                    raise
                return client
            case "none":
                return _ImapClient(self._server, self._opener, self._closer)


@contextlib.contextmanager
def explain_errors(server: MailServer, folder: str) -> Iterator[None]:
    """Convert connection and protocol errors into MailError."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        why = one_line(error.verify_message, MAX_ERROR_CHARS)
        raise MailError(
            "tls_failed",
            _("The certificate of {server} is not valid ({why}).").format(
                server=server.name, why=why
            ),
        ) from error
    except ssl.SSLError as error:
        raise MailError(
            "tls_failed",
            _("No secure connection to {server}: {reason}.").format(
                server=server.name, reason=one_line(str(error), MAX_ERROR_CHARS)
            ),
        ) from error
    except TimeoutError as error:
        raise MailError(
            "timeout", _("{server} did not answer in time.").format(server=server.name)
        ) from error
    except MailboxLoginError as error:
        raise _login_refused(server) from error
    except MailboxFolderSelectError as error:
        raise MailError(
            "not_found", _("There is no folder {folder!r} in the mailbox.").format(folder=folder)
        ) from error
    except OSError as error:
        why = error.strerror or str(error)
        raise MailError(
            "unreachable", f"{server.name}: {one_line(why, MAX_ERROR_CHARS)}."
        ) from error
    except (imaplib.IMAP4.error, ImapToolsError) as error:
        raise _error_from_server(error, server) from error


def _error_from_server(error: Exception, server: MailServer) -> MailError:
    """Return the error for a server's response; imaplib has one exception for nearly everything."""
    text = one_line(str(error), MAX_ERROR_CHARS)
    if "TLS not supported" in text or "STARTTLS" in text:
        return MailError(
            "tls_failed",
            _("{server} does not support STARTTLS; the connection would be unencrypted.").format(
                server=server.name
            ),
        )
    if "AUTHENTICATIONFAILED" in text:
        return _login_refused(server)
    if isinstance(error, imaplib.IMAP4.abort):
        return MailError(
            "unreachable",
            _("{server} closed the connection: {text!r}.").format(server=server.name, text=text),
        )
    return MailError("mail_server", f"{server.name} answered: {text!r}.")


def _login_refused(server: MailServer) -> MailError:
    # Without the server's text: it could repeat the password.
    return MailError(
        "auth_failed",
        _(
            "{server} rejected the user name or password. A human must correct the secret of the "
            "mail account."
        ).format(server=server.name),
    )


class _OpenedConnection(imaplib.IMAP4):
    """A client that connects by an opener."""

    _opener: SocketOpener

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return self._opener.open(self.host, self.port, timeout)


class _ImapClient(_OpenedConnection):
    """An IMAP client that registers itself with `closer` when its socket is open.

    The constructor already talks to the server, so a cancelled call needs the socket before it
    returns.
    """

    def __init__(self, server: MailServer, opener: SocketOpener, closer: SocketTracker) -> None:
        self._opener, self._closer = opener, closer
        super().__init__(server.host, server.port, RESPONSE_TIMEOUT_S)

    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        super().open(host, port, timeout)
        self._closer.register(self)


class _ImapTlsClient(imaplib.IMAP4_SSL, _OpenedConnection):
    """The same over TLS from the start."""

    def __init__(self, server: MailServer, opener: SocketOpener, closer: SocketTracker) -> None:
        self._opener, self._closer = opener, closer
        context = ssl.create_default_context()
        super().__init__(server.host, server.port, ssl_context=context, timeout=RESPONSE_TIMEOUT_S)

    def open(self, host: str = "", port: int | None = 993, timeout: float | None = None) -> None:
        super().open(host, port, timeout)
        self._closer.register(self)
