"""The side of a fork server that asks for forks and watches them; needs a running event loop."""

import asyncio
import contextlib
import os
import signal
import socket
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pydantic import ValidationError

from choir_common.wire.forks import MAX_PACKET_BYTES, ForkReply
from choir_common.wire.model import WireModel

REPLY_WITHIN_S = 60.0
"""The first reply comes when the modules are loaded, which takes half a minute on a very busy machine."""

IDLE_S = 60.0
"""A server without work ends after this time, if few agents run: alone it takes more memory than it saves."""
UNKNOWN_CODE = 255
"""Exit code of a child that another part of this process has reaped; asyncio says the same then."""


class ChildProcess(Protocol):
    """What is needed of a child process; `asyncio.subprocess.Process` has it, too."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the number of the signal that ended it; None while it runs."""

    async def wait(self) -> int:
        """Wait for its end and return its exit code."""

    def send_signal(self, number: int) -> None:
        """Send it a signal; raises ProcessLookupError if it has ended."""

    def kill(self) -> None:
        """Send it SIGKILL; raises ProcessLookupError if it has ended."""


class ForkedProcess:
    """A child that another process forked for this one."""

    def __init__(self, pid: int) -> None:
        """Watch the child `pid`; needs a running event loop. Raises OSError if there is none."""
        self.pid = pid
        self.returncode: int | None = None
        self._end = asyncio.Event()
        self._handle = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._handle, self._reap)

    async def wait(self) -> int:
        """Wait for its end and return its exit code."""
        await self._end.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal; raises ProcessLookupError if it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        """Send it SIGKILL; raises ProcessLookupError if it has ended."""
        self.send_signal(signal.SIGKILL)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        try:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self.returncode = UNKNOWN_CODE
        self._end.set()


class ForkServer:
    """Starts programs as forks of one process, which is started when one is needed and there is none."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        is_worthwhile: Callable[[], bool] = lambda: False,
    ) -> None:
        """`command` runs the server, with two more words: its socket and this process.

        `environment` is what all forks have in common, and has no secrets. An idle server lives on while
        `is_worthwhile` says so.
        """
        self._command = tuple(command)
        self._environment = dict(environment)
        self._is_worthwhile = is_worthwhile
        self._idle: asyncio.TimerHandle | None = None
        self._connection: socket.socket | None = None
        self._process: ChildProcess | None = None
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Start to load the modules, without waiting for it. Raises OSError.

        This must run in the event loop's thread: the kernel ties the server's life to the forking thread.
        """
        async with self._one_at_a_time:
            await self._open()
            self._restart_idle_time()

    async def fork(self, request: WireModel, descriptors: Sequence[int]) -> ForkedProcess:
        """Fork a program with these descriptors, which becomes a child of this process.

        Raises OSError; the server kills a fork that was made nevertheless.
        """
        async with self._one_at_a_time:
            connection = await self._open()
            self._restart_idle_time()
            try:
                async with asyncio.timeout(REPLY_WITHIN_S):
                    socket.send_fds(
                        connection, [request.model_dump_json().encode()], list(descriptors)
                    )
                    loop = asyncio.get_running_loop()
                    reply = await loop.sock_recv(connection, MAX_PACKET_BYTES)
                return ForkedProcess(ForkReply.model_validate_json(reply).pid)
            except TimeoutError:
                self._end()
                raise OSError(f"no reply within {REPLY_WITHIN_S:g} s") from None
            except (ValidationError, ConnectionError):
                self._end()
                raise OSError("it has ended") from None
            except BaseException:
                # also after a cancellation: the next request must not get the reply to this one
                self._end()
                raise

    async def close(self) -> None:
        """End the server and wait for it; its forks live on."""
        process = self._process
        self._end()
        if process is not None:
            await process.wait()

    async def _open(self) -> socket.socket:
        if self._connection is not None:
            return self._connection
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = await start_server(
                    self._command, theirs.fileno(), self._environment
                )
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        self._connection = ours
        return ours

    def _restart_idle_time(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._is_worthwhile() or self._one_at_a_time.locked():
            self._restart_idle_time()
        else:
            self._end()

    def _end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is not None:
            connection.close()
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


async def start_server(
    command: Sequence[str], descriptor: int, environment: Mapping[str, str]
) -> ChildProcess:
    """Start a fork server that reads requests from a descriptor. Raises OSError."""
    return await asyncio.create_subprocess_exec(
        *command,
        str(descriptor),
        str(os.getpid()),
        stdin=DEVNULL,
        stdout=DEVNULL,
        env=environment,
        cwd="/",
        pass_fds=[descriptor],
        start_new_session=True,
    )
