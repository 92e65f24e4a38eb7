"""The service's side of the child process that reads files. Blocking; call it in a thread.

The child is started with the first file that has to be parsed and ended by `close`, so that its libraries use
memory only while files are being read. Plain text is decoded here.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_files.errors import UnreadableFile
from choir_files.formats import ChildFormat, FileFormat
from choir_files.plain_text import MAX_BYTES, MAX_CHARACTERS, check_text, decode_text
from choir_files.sandbox import ReadLimits

START_S = 30.0
"""Seconds until the child has loaded its libraries; it takes one on an idle machine."""
REPLY_S = 10.0
SLOWEST = 8
"""A file may take this many times its CPU limit by the clock, on a busy machine."""
MAX_ANSWER = MAX_BYTES + 1
PIPE_SIZE = 1 << 16
PROGRAM = (sys.executable, "-I", "-m", "choir_files.child")
READ_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class ReducedPicture:
    """A picture as models read it."""

    mime: str
    width: int
    height: int
    content: bytes = field(repr=False)


class FileReader:
    """Reader of texts and pictures of files, one file at a time."""

    def __init__(self, limits: ReadLimits, program: Sequence[str] = PROGRAM) -> None:
        self._limits = limits
        self._program = program
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def read(self, document: int, file_format: FileFormat) -> str:
        """Return the text of an open file, which is read from its beginning.

        Raises UnreadableFile, and Unavailable if no file can be read now.
        """
        os.lseek(document, 0, os.SEEK_SET)
        match file_format:
            case "markdown" | "text":
                return _read_plain_text(document)
            case _:
                return self._read_in_child(document, file_format).decode("utf-8", "replace")

    def count_pages(self, document: int) -> int:
        """Return the number of pages of an open PDF.

        Raises UnreadableFile, and Unavailable if no file can be read now.
        """
        os.lseek(document, 0, os.SEEK_SET)
        return int(self._read_in_child(document, "pages"))

    def reduce_picture(self, document: int) -> ReducedPicture:
        """Return an open picture in the size that models read.

        Raises UnreadableFile, and Unavailable if no file can be read now.
        """
        os.lseek(document, 0, os.SEEK_SET)
        head, _, content = self._read_in_child(document, "picture").partition(b"\n")
        mime, width, height = head.decode().split()
        return ReducedPicture(mime, int(width), int(height), content)

    def _read_in_child(self, document: int, file_format: ChildFormat) -> bytes:
        connection = self._connect()
        reading, writing = os.pipe()
        try:
            try:
                socket.send_fds(connection, [file_format.encode()], [document, writing])
            finally:
                os.close(writing)
            answer = self._receive(reading)
            status = int.from_bytes(connection.recv(4), sys.byteorder)
        except TimeoutError:
            self.close()
            seconds = self._limits.cpu_s * SLOWEST
            raise UnreadableFile(f"took more than {seconds} seconds to be read") from None
        except OSError as error:
            self.close()
            raise UnreadableFile(
                f"could not be read: the reading process failed ({error})"
            ) from None
        finally:
            os.close(reading)
        match answer[:1]:
            case b"+":
                return answer[1:]
            case b"-":
                raise UnreadableFile(answer[1:].decode("utf-8", "replace")[:200])
            case _:
                raise UnreadableFile(self._explain(status))

    def close(self) -> None:
        """End the child and everything that it started."""
        child, self._child = self._child, None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if child is not None:
            # its own process group, so that a fork that still reads ends with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _connect(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair()
        ours.settimeout(START_S)
        limits = (str(self._limits.memory_mb), str(self._limits.cpu_s))
        with theirs:
            self._child = subprocess.Popen(
                [*self._program, *limits],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # no secrets of the service
                env={"LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        self._socket = ours
        try:
            ready = ours.recv(16)
        except OSError:
            ready = b""
        if not ready:
            self.close()
            raise Unavailable(
                _(
                    "Files cannot be read: the process that reads them did not start. Install the packages "
                    "of choir-files again (`make install`)."
                )
            )
        ours.settimeout(REPLY_S)
        return ours

    def _receive(self, reading: int) -> bytes:
        """Return what the fork wrote until it ended; raises TimeoutError."""
        deadline = time.monotonic() + self._limits.cpu_s * SLOWEST
        parts: list[bytes] = []
        size = 0
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or size > MAX_ANSWER or not poll.poll(left_s * 1_000):
                raise TimeoutError
            part = os.read(reading, PIPE_SIZE)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)

    def _explain(self, status: int) -> str:
        ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if ended_by == signal.SIGXCPU:
            return f"took more than {self._limits.cpu_s} seconds of CPU time to be read"
        if ended_by == signal.SIGKILL:
            return "could not be read: the machine had too little memory"
        if ended_by in (
            signal.SIGABRT,
            signal.SIGSEGV,
            signal.SIGBUS,
            signal.SIGILL,
            signal.SIGTRAP,
        ):
            limit = self._limits.memory_mb
            return f"is damaged, or needs more than {limit} MB of memory to be read"
        return "could not be read: the reading process ended without an answer"


def _read_plain_text(document: int) -> str:
    parts: list[bytes] = []
    size = 0
    while part := os.read(document, READ_SIZE):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise UnreadableFile(f"has more than {MAX_CHARACTERS:,} characters of text")
    return check_text(decode_text(b"".join(parts)))
