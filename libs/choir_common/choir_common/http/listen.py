"""HTTP server on Unix sockets and TCP ports, which stops without waiting for open streams.

Called by each service's `__main__` through `serve`. Sockets are bound first, so that a used port or a path
that is too long is reported in one sentence before anything else has started.
"""

import asyncio
import contextlib
import errno
import os
import signal
import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from choir_common.errors import OutcomeUnknown, StartupError
from choir_common.http.http_protocol import HttpProtocol
from choir_common.http.responses import problem_response
from choir_common.i18n import _
from choir_common.process import ShutdownDeadline

# sockaddr_un.sun_path holds 108 bytes on Linux, the last one a NUL.
MAX_SOCKET_PATH = 107
BACKLOG = 2048
STOP_GRACE_S = 3
STOP_TIMEOUT_S = 8.0
"""Shorter than the wait before a kill: 10 s by the supervisor, 15 s by compose."""
FAST_STOP_TIMEOUT_S = 6.0


def bind_unix(path: Path) -> socket.socket:
    """Bind a Unix socket at `path` in a directory of mode 0700; replace a stale socket file.

    Raises StartupError if the path is too long or cannot be created.
    """
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise StartupError(
            _(
                "The socket path {path} has {count} bytes; the limit is {max_socket_path}. Choose a "
                "shorter CHOIR_HOME (or --home)."
            ).format(path=path, count=len(os.fsencode(path)), max_socket_path=MAX_SOCKET_PATH)
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(os.fspath(path))
    except OSError as error:
        raise StartupError(
            _("Cannot create the socket {path}: {error}.").format(path=path, error=error.strerror)
        ) from error
    path.chmod(0o600)
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def bind_tcp(host: str, port: int, setting: str) -> socket.socket:
    """Bind a TCP port; the error names the setting `setting`.

    Raises StartupError if the port cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; without it a response takes 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OverflowError as error:
        sock.close()
        raise StartupError(
            _(
                "Cannot listen on {host}:{port}: a port is a number from 0 to 65535. Correct {setting}."
            ).format(host=host, port=port, setting=setting)
        ) from error
    except OSError as error:
        sock.close()
        why = _("another program uses it") if error.errno == errno.EADDRINUSE else error.strerror
        raise StartupError(
            _(
                "Cannot listen on {host}:{port}: {why}. Stop that program or set {setting} to a free "
                "port."
            ).format(host=host, port=port, why=why, setting=setting)
        ) from error
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock


def bind_tcp_address(address: str, setting: str) -> socket.socket:
    """Bind the TCP port of `address`, which is host:port with an IPv6 host in brackets."""
    host, _, port = address.rpartition(":")
    return bind_tcp(host.strip("[]"), int(port), setting)


class ShutdownResponder:
    """ASGI middleware that responds to requests which the shutdown cancels.

    Without it uvicorn would send a bare 500.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app; if it is cancelled before it responds, send `outcome_unknown`."""
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except asyncio.CancelledError:
            if not has_started and scope["type"] == "http":
                await problem_response(_ending())(scope, receive, send)
            raise


def _ending() -> OutcomeUnknown:
    return OutcomeUnknown(
        _(
            "Choir is stopping or restarting. The request may have been carried out; it is safe to "
            "repeat it with the same key."
        ),
        retry_after_s=2.0,
    )


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signal handling to the caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    stop: asyncio.Event,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve `app` on `sockets` until `stop` is set; open streams get a short grace period.

    With `tls` all of these sockets use it.
    """
    config = uvicorn.Config(
        ShutdownResponder(app),
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        http=HttpProtocol,
        ws="none",  # no service has a WebSocket; loading the protocol takes 16 ms at each start
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        # There is no proxy in front: a client that sends forwarding headers could choose its own `client`
        # value, and so pass for the peer of a Unix socket.
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_GRACE_S,
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=64_000,
    )
    server = _Server(config)

    async def watch() -> None:
        await stop.wait()
        server.should_exit = True

    async with asyncio.TaskGroup() as tasks:
        watcher = tasks.create_task(watch())
        await server.serve(sockets=list(sockets))
        watcher.cancel()


def stop_on_signals(
    stop_fast: asyncio.Event | None = None, timeout_s: float = STOP_TIMEOUT_S
) -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets; the process is terminated `timeout_s` seconds later.

    A second signal sets `stop_fast`; so does the first if the parent process has exited. Then the process has
    at most `FAST_STOP_TIMEOUT_S` seconds left.
    """
    loop = asyncio.get_running_loop()
    stop, parent, deadline = asyncio.Event(), os.getppid(), ShutdownDeadline(loop)

    def on_signal() -> None:
        is_urgent = stop.is_set() or os.getppid() != parent
        if stop_fast is not None and is_urgent:
            stop_fast.set()
        stop.set()
        deadline.start(min(timeout_s, FAST_STOP_TIMEOUT_S) if is_urgent else timeout_s)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop
