"""Authentication of operators and of people's browsers.

Operators: by file permission on the Unix socket, by the operator token or a session of the web page over TCP.
A process that descends from control is an agent or an agent's tool. On the socket it is refused regardless of
its user; over TCP it would need the token. A person's session of the web page reaches the own conversations
only.
"""

import contextlib
import hmac
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import structlog
from fastapi import Request

from choir_common.errors import Forbidden, Unauthorized
from choir_common.http.http_protocol import UNIX_PEER
from choir_common.i18n import _
from choir_control.api.operator.browser_streams import BrowserLimits
from choir_control.api.operator.web_cookies import WebCookies
from choir_control.api.rpc.caller import read_bearer_token, read_headers
from choir_control.configuration.secrets.store import SecretStore
from choir_control.web.service import WebSessionService
from choir_control.web.store import WebSession

METRICS_TOKEN = "metrics-token"  # noqa: S105 - a secret's name
OPERATOR = "operator"
MAX_ANCESTORS = 200
STAT_BYTES = 4096
"""Longer than any /proc/PID/stat."""


class ProcessTree:
    """The descendants of this process: agents, and their tools.

    The process runtime makes control a subreaper, so a process cannot leave this tree by outliving
    its parents.
    """

    def is_descendant(self, pid: int) -> bool:
        """Return whether `pid` descends from this process; True also for one that has exited."""
        own_pid = os.getpid()
        if pid == own_pid:
            return False
        for _step in range(MAX_ANCESTORS):
            parent = _parent_of(pid)
            if parent is None or parent == own_pid:
                return True
            if parent <= 1:
                return False
            pid = parent
        return True


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request to `/v1`."""

    web_session: WebSession | None = None
    """None for the Unix socket and the operator token."""

    @property
    def person(self) -> str | None:
        """Return the person whose conversations may be used; None for an operator."""
        return self.web_session.person if self.web_session else None

    @property
    def operator_label(self) -> str:
        """Return who an operator is, for the record: `operator`, and in a browser the id of its session."""
        if self.web_session is None:
            return OPERATOR
        return f"{OPERATOR}, browser {self.web_session.web_session_id}"


class CallerAuthentication:
    """The one function that tells who sends a request to `/v1`."""

    def __init__(
        self, *, operator_token: str | None, processes: ProcessTree, cookies: WebCookies
    ) -> None:
        self._token = operator_token
        self._processes = processes
        self._cookies = cookies

    async def identify(self, request: Request) -> Caller:
        """Return the caller; raises Unauthorized or Forbidden."""
        peer = request.client
        if peer is not None and peer.host == UNIX_PEER:
            # pid 0: the peer lives in another pid namespace (a container); it passed the file
            # permission
            if peer.port and self._processes.is_descendant(peer.port):
                raise Forbidden(_("Agents and their tools may not use the operator API."))
            return Caller()
        # a reverse proxy may ask for a password of its own
        if not request.headers.get("authorization", "").lower().startswith("bearer "):
            cookie = self._cookies.read(request)
            if cookie is not None:
                return Caller(await self._cookies.authenticate(request, cookie))
        if self._token is None:
            raise Unauthorized(
                _(
                    "The operator API is available on the Unix socket only: no operator token is set."
                )
            )
        # constant time: the response time must not reveal how much of a guess is right
        if not hmac.compare_digest(
            read_bearer_token(read_headers(request.scope)).encode(), self._token.encode()
        ):
            raise Unauthorized(_("The operator token is wrong."))
        return Caller()


@dataclass(frozen=True, slots=True)
class ConversationAccess:
    """The access of a request, in `request.state.access`."""

    caller: Caller
    _sessions: WebSessionService
    _limits: BrowserLimits

    def admit_stream(self) -> AbstractContextManager[None]:
        """Return a context manager that counts an event stream; raises RateLimited for too many."""
        return self._limits.streams.admit(self.caller.web_session)

    def admit_transfer(self) -> AbstractContextManager[None]:
        """Return a context manager that counts an upload or download; raises RateLimited for too many."""
        return self._limits.transfers.admit(self.caller.web_session)

    def is_valid(self) -> bool:
        """Return whether the caller is still signed in; streams ask again."""
        session = self.caller.web_session
        return session is None or self._sessions.is_valid(session)

    def may_use(self, dm: str) -> bool:
        """Return whether the caller may use a conversation now; streams ask again."""
        if not self.is_valid():
            return False
        return self.caller.person is None or self._sessions.has_conversation(self.caller.person, dm)


class OperatorAuthentication:
    """Access check of the operators' part of `/v1`."""

    def __init__(
        self, callers: CallerAuthentication, sessions: WebSessionService, limits: BrowserLimits
    ) -> None:
        self._callers = callers
        self._sessions = sessions
        self._limits = limits

    async def __call__(self, request: Request) -> None:
        """Set `request.state.access` for an operator; raises Unauthorized or Forbidden otherwise."""
        caller = await self._callers.identify(request)
        if caller.person is not None:
            raise Forbidden(_("This browser may use the conversations of its person only."))
        if caller.web_session is not None:
            # the log says for each change by which browser it was made
            structlog.contextvars.bind_contextvars(browser=caller.web_session.web_session_id)
        request.state.access = ConversationAccess(caller, self._sessions, self._limits)


class ConversationAuthentication:
    """Access check of the routes of conversations: operators, and people in their own."""

    def __init__(
        self, callers: CallerAuthentication, sessions: WebSessionService, limits: BrowserLimits
    ) -> None:
        self._callers = callers
        self._sessions = sessions
        self._limits = limits

    async def __call__(self, request: Request) -> None:
        """Set `request.state.access`; raises Unauthorized or Forbidden."""
        caller = await self._callers.identify(request)
        access = ConversationAccess(caller, self._sessions, self._limits)
        dm = request.path_params.get("dm")
        if dm is not None and not access.may_use(dm):
            raise Forbidden(_("This is not a conversation of this browser's person."))
        request.state.access = access


def operator_label(request: Request) -> str:
    """Return who sent a request that `OperatorAuthentication` let pass, for the record."""
    access: ConversationAccess = request.state.access
    return access.caller.operator_label


def until_signed_out(
    request: Request, stream: AsyncGenerator[bytes, None], *, is_file: bool = False
) -> AsyncIterator[bytes]:
    """Return a stream that ends with the session of the request, such as by `choirctl web revoke`.

    Raises RateLimited if the browser has too many open streams, or files on their way.
    """
    access: ConversationAccess = request.state.access
    admission = access.admit_transfer() if is_file else access.admit_stream()
    return _while_signed_in(access, stream, admission)


async def _while_signed_in(
    access: ConversationAccess,
    stream: AsyncGenerator[bytes, None],
    admission: AbstractContextManager[None],
) -> AsyncIterator[bytes]:
    with admission:
        async with contextlib.aclosing(stream):
            async for piece in stream:
                if not access.is_valid():
                    return
                yield piece


class FileAuthentication:
    """Access check of the files of messages: operators, and the gateway with its token."""

    def __init__(self, operators: OperatorAuthentication, gateway_token: str | None) -> None:
        self._operators = operators
        self._gateway_token = gateway_token

    async def __call__(self, request: Request) -> None:
        """Return for a valid client; raises as `OperatorAuthentication` does."""
        if self._gateway_token is None or not _bears(request, self._gateway_token):
            await self._operators(request)


class MetricsAuthentication:
    """Access check of `/metrics`: operators, and clients with the secret `metrics-token`."""

    def __init__(self, operators: OperatorAuthentication, secrets: SecretStore) -> None:
        self._operators = operators
        self._secrets = secrets

    async def __call__(self, request: Request) -> None:
        """Return for a valid client; raises as `OperatorAuthentication` does."""
        # read for each request, because `secret apply` changes it
        token = self._secrets.get_known((METRICS_TOKEN,)).get(METRICS_TOKEN)
        if not token or not _bears(request, token):
            await self._operators(request)


def _bears(request: Request, token: str) -> bool:
    """Return whether the request has this bearer token."""
    header = request.headers.get("authorization", "")
    return hmac.compare_digest(header.encode(), f"Bearer {token}".encode())


def _parent_of(pid: int) -> int | None:
    try:
        # Read without a file object, in a third of the time: each request reads several of these.
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            content = os.read(stat, STAT_BYTES)
        finally:
            os.close(stat)
        # The second field is the program's name in parentheses, and may contain any character.
        return int(content.rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None
