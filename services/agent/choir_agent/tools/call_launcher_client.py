"""Client of the call launcher: starts programs in domains of their own, and ends them.

In the process runtime the launcher was started together with the agent, because the agent's own confinement
forbids the mounts that a domain needs. Elsewhere the agent starts it at its first call.
"""

import asyncio
import errno
import json
import os
import socket
import sys
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import structlog

import choir_common
from choir_agent import call_launcher
from choir_agent.call_launcher.messages import LENGTH_BYTES, CallReply, CallRequest

log = structlog.get_logger("choir.agent.tools")

SCRIPT = Path(call_launcher.__file__).with_name("script.py")
COMMON = Path(choir_common.__file__).parent.parent
LAUNCHER_FILE = 3
START_WITHIN_S = 30.0
KILLED_WITHIN_S = 10.0
MAX_MESSAGE_BYTES = 65_536


class StartedCall:
    """A call whose program runs until `wait` has returned."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reply = asyncio.create_task(_receive_reply(channel), name="reply of a call")

    async def wait(self) -> CallReply:
        """Wait until the program and everything that it started have ended."""
        return await asyncio.shield(self._reply)

    async def end(self) -> None:
        """Kill everything that the program started and still runs."""
        try:
            async with asyncio.timeout(KILLED_WITHIN_S):
                if not self._reply.done():
                    self._channel.shutdown(socket.SHUT_WR)
                await self.wait()
        except (OSError, ValueError) as error:
            # TimeoutError, too: a process that waits for a device cannot be killed
            log.warning("the end of a tool's program is unknown", error=repr(error))
        finally:
            self._reply.cancel()


class CallLauncherClient:
    """Connection to the launcher of this agent."""

    def __init__(self, inherited: int | None = None) -> None:
        """Use the connection with this descriptor, or start a launcher at the first call."""
        self._inherited = inherited
        self._connection: socket.socket | None = None
        self._connecting = asyncio.Lock()
        self.missing: tuple[str, ...] = ()
        """What this host does not support of a domain; known after the first call."""

    @asynccontextmanager
    async def call(self, request: CallRequest, files: Sequence[int]) -> AsyncIterator[StartedCall]:
        """Start a program and yield its call; everything that it started ends with the context.

        `files` are its three standard streams, and perhaps its working directory. Raises OSError.
        """
        ours, theirs = socket.socketpair()
        with closing(ours):
            ours.setblocking(False)
            with closing(theirs):
                await self._send_channel(theirs, offline=request.offline)
            message = request.encode()
            socket.send_fds(ours, [message[:LENGTH_BYTES]], list(files))
            await asyncio.get_running_loop().sock_sendall(ours, message[LENGTH_BYTES:])
            started = StartedCall(ours)
            try:
                yield started
            finally:
                await started.end()

    async def _send_channel(self, channel: socket.socket, *, offline: bool) -> None:
        async with self._connecting:
            connection = self._connection or await self._connect()
            try:
                socket.send_fds(connection, [b"0" if offline else b"1"], [channel.fileno()])
            except ConnectionError:
                self._connection = None
                connection.close()
                raise

    async def _connect(self) -> socket.socket:
        """Connect to the launcher, and log what it misses on this host. Raises OSError."""
        is_inherited = self._inherited is not None
        if self._inherited is None:
            connection = _start_launcher()
        elif self._inherited >= 0:
            connection = socket.socket(fileno=self._inherited)
            connection.set_inheritable(False)
            self._inherited = -1
        else:
            raise OSError(
                errno.ECONNREFUSED, "the launcher of tool calls has ended; restart this agent"
            )
        connection.setblocking(False)
        try:
            async with asyncio.timeout(START_WITHIN_S):
                self.missing = await _receive_missing(connection)
        except (OSError, ValueError) as error:
            connection.close()
            raise OSError(errno.ECONNREFUSED, f"cannot start tool calls: {error!r}") from error
        except asyncio.CancelledError:
            # There is only one launcher to inherit: the next call waits for its line again.
            if is_inherited:
                self._inherited = connection.detach()
            else:
                connection.close()
            raise
        if self.missing:
            log.warning("this host lacks walls around tool calls", missing=self.missing)
        self._connection = connection
        # The launcher ends with the connection, and the connection with this client.
        weakref.finalize(self, connection.close)
        return connection


def _start_launcher() -> socket.socket:
    """Start a launcher, which ends with the connection, and return the connection."""
    ours, theirs = socket.socketpair()
    with closing(theirs):
        argv = [sys.executable, "-I", "-S", str(SCRIPT), str(COMMON)]
        argv += ["--socket", str(LAUNCHER_FILE)]
        os.posix_spawn(
            sys.executable,
            argv,
            {},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, 2, 1),
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), LAUNCHER_FILE),
            ],
        )
    return ours


async def _receive_missing(connection: socket.socket) -> tuple[str, ...]:
    """Receive the launcher's first line; raises ValueError if it ended before."""
    loop, line = asyncio.get_running_loop(), b""
    while not line.endswith(b"\n"):
        part = await loop.sock_recv(connection, MAX_MESSAGE_BYTES)
        if not part:
            raise ValueError("the launcher ended; the agent's log says why")
        line += part
    return tuple(json.loads(line))


async def _receive_reply(channel: socket.socket) -> CallReply:
    """Receive the reply of a call; an empty one if its supervisor was killed."""
    loop, text = asyncio.get_running_loop(), b""
    while part := await loop.sock_recv(channel, MAX_MESSAGE_BYTES):
        text += part
    return CallReply.decode(text) if text else CallReply()
