"""HTTP protocol class with peer credentials of Unix sockets, limits on the request head, and joined writes.

`listen.serve` uses it. An app finds the peer in `request.client`: host `UNIX_PEER`, and the pid as port (0
if the peer is in another pid namespace).
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from choir_common.errors import RequestTimeout, TooLarge
from choir_common.http.joined_writes import JoinedWrites
from choir_common.http.response_parser import CONTENT_TYPE, Problem

UNIX_PEER = "unix"
_UCRED = struct.Struct("3i")  # pid, uid, gid


# Enough for tokens, ids and a few cookies; no known client sends more.
MAX_HEAD_BYTES = 32_768
# Seconds from the connection, or the first byte of a further request, to the end of its headers.
HEAD_TIMEOUT_S = 10.0
# Seconds in which the rest of a body may arrive after its request was answered.
REST_TIMEOUT_S = 5.0


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the pid of Unix peers, and limits on size and time of a request head.

    The parser itself accepts headers of any size, at any speed, and the rest of a body after its response.
    """

    _deadline: asyncio.TimerHandle | None = None
    _in_head = True
    _head_size = 0
    _counted = 0
    _refusal = HTTPStatus.BAD_REQUEST, "bad_input", "This is not a valid HTTP request."

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = JoinedWrites(transport, self.loop)
        self._within(HEAD_TIMEOUT_S, self._head_too_slow)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family == socket.AF_UNIX:
            self.client = (UNIX_PEER, _peer_pid(sock))

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Counted before parsing: the parser buffers a header value without a callback.
        self._head_size += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._head_size > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._head_too_large()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_size, self._counted = True, 0, 0
        if self._deadline is None:
            self._within(HEAD_TIMEOUT_S, self._head_too_slow)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._in_time()
        self._in_head, self._head_size = False, 0
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        if self.cycle.more_body and not self.transport.is_closing():
            self._within(REST_TIMEOUT_S, self.transport.close)
        super().on_response_complete()

    def on_message_complete(self) -> None:
        self._in_time()
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Ignore a request for another protocol, as HTTP allows; uvicorn would log two warnings for each."""

    def send_400_response(self, msg: str) -> None:
        """Reject a request that the parser cannot read with a problem document, and close."""
        self._in_time()
        status, code, detail = self._refusal
        problem = Problem(
            type=f"urn:choir:error:{code}",
            title=code.replace("_", " "),
            status=status,
            detail=detail,
            code=code,
        )
        body = problem.model_dump_json().encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {CONTENT_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _count(self, size: int) -> None:
        # Limits many headers in one chunk; the parser turns the error into `send_400_response`.
        self._counted += size
        if self._counted > MAX_HEAD_BYTES:
            self._head_too_large()
            raise ValueError("the head is too large")

    def _head_too_large(self) -> None:
        self._refusal = (
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            TooLarge.code,
            f"The request line and its headers are larger than {MAX_HEAD_BYTES} bytes.",
        )

    def _head_too_slow(self) -> None:
        self._refusal = (
            HTTPStatus.REQUEST_TIMEOUT,
            RequestTimeout.code,
            f"No complete request head arrived within {HEAD_TIMEOUT_S:g} s.",
        )
        self.send_400_response("")

    def _within(self, seconds: float, otherwise: Callable[[], None]) -> None:
        self._in_time()
        self._deadline = self.loop.call_later(seconds, otherwise)

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _peer_pid(sock: socket.socket) -> int:
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid, _, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return int(pid)
