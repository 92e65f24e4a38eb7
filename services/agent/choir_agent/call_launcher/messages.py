"""Messages between the agent and the launcher: JSON, and open files as ancillary data.

For each call the agent passes one end of a socket pair. Over it go the request, the reply, and the order to
stop: the end of the stream. No dataclasses here, which would double the launcher's time to start.
"""

import json
import socket
from collections.abc import Mapping, Sequence

LENGTH_BYTES = 4
MAX_REQUEST_BYTES = 16_000_000
STANDARD_STREAMS = 3
MAX_FILES = 4


class CallRequest:
    """A program to start. Its three standard streams, and perhaps its directory, come as open files."""

    def __init__(
        self,
        *,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: str,
        offline: bool,
        readable: Sequence[str],
        runnable: Sequence[str] = (),
        directories: Sequence[str] = (),
        max_bytes: int = 0,
        max_files: int = 0,
        is_full: bool = False,
    ) -> None:
        """Set the program; `cwd` is ignored if the directory came as an open file.

        `directories` have limits on their bytes and files together; 0 means no limit. With `is_full` they
        exceed them already, so that the program can write no bytes to files.
        """
        self.argv = list(argv)
        self.environment = dict(environment)
        self.cwd = cwd
        self.offline = offline
        self.readable = list(readable)
        self.runnable = list(runnable)
        self.directories = list(directories)
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.is_full = is_full

    def encode(self) -> bytes:
        """Return the message, with its length first."""
        # Paths may contain bytes that are not UTF-8, which JSON's escapes preserve.
        text = json.dumps(vars(self)).encode()
        return len(text).to_bytes(LENGTH_BYTES, "big") + text


class CallReply:
    """End of a call, after all its processes have ended."""

    def __init__(
        self,
        *,
        exit_code: int | None = None,
        error_number: int = 0,
        error: str = "",
        excess: str = "",
    ) -> None:
        """Set the exit code (negative for a signal), or why there is none.

        `error` is why the program did not start, and `excess` which limit it exceeded.
        """
        self.exit_code = exit_code
        self.error_number = error_number
        self.error = error
        self.excess = excess

    def encode(self) -> bytes:
        """Return the message; it ends with the stream."""
        return json.dumps(vars(self)).encode()

    @classmethod
    def decode(cls, text: bytes) -> "CallReply":
        """Parse a message; raises ValueError or TypeError if it is incomplete."""
        return cls(**json.loads(text))


def receive_request(channel: socket.socket) -> tuple[CallRequest, list[int]]:
    """Receive a request and its open files; raises OSError or ValueError if it is incomplete."""
    head, files, _, _ = socket.recv_fds(channel, LENGTH_BYTES, MAX_FILES)
    head += _receive(channel, LENGTH_BYTES - len(head))
    length = int.from_bytes(head, "big")
    if length > MAX_REQUEST_BYTES or len(files) < STANDARD_STREAMS:
        raise ValueError(f"invalid request of {length} bytes and {len(files)} files")
    return CallRequest(**json.loads(_receive(channel, length))), files


def _receive(channel: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = channel.recv(min(length, 1 << 20))
        if not part:
            raise ValueError("the request ended early")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
