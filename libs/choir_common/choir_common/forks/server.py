"""The side of a fork server that forks; it runs in a process with one thread.

The server itself reads no request: what it knew about one program, all later ones would have in their memory.
"""

import gc
import os
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.wire.forks import MAX_DESCRIPTORS, MAX_PACKET_BYTES, ForkReply

ADOPTED_WITHIN_S = 10.0
POLL_INTERVAL_S = 0.0005


@dataclass(frozen=True, slots=True)
class Fork:
    """What a fork shall become."""

    packet: bytes
    """The request."""
    descriptors: tuple[int, ...]


def serve_forks(connection: socket.socket) -> Fork | None:
    """Fork once for each request until the connection ends, and return None then.

    In a fork, return what it shall become. Its parent is the next subreaper above, once `wait_for_parent`
    returns.
    """
    gc.collect()
    # what is loaded by now is never garbage: its pages stay shared with the forks
    gc.freeze()
    while connection.recv(1, socket.MSG_PEEK):
        between = os.fork()
        if between == 0:
            return _fork(connection)
        _, status = os.waitpid(between, 0)
        if status != 0:
            break  # it may have left its request unread
    return None


def _fork(connection: socket.socket) -> Fork:
    """Fork once more and end; return what is to be in the fork.

    The end of this process makes the fork a child of the next subreaper above.
    """
    packet, descriptors, _, _ = socket.recv_fds(connection, MAX_PACKET_BYTES, MAX_DESCRIPTORS)
    pid = os.fork()
    if pid != 0:
        try:
            connection.send(ForkReply(pid=pid).model_dump_json().encode())
        except OSError:
            # nobody waits for it any more: what was started instead must not run twice
            os.kill(pid, signal.SIGKILL)
            os._exit(1)
        os._exit(0)
    connection.detach()  # all descriptors but the streams are closed later
    return Fork(packet, tuple(descriptors))


def take_streams(stdin: int, output: int) -> None:
    """Make these the standard streams of a new session."""
    os.setsid()
    for number, descriptor in enumerate((stdin, output, output)):
        os.dup2(descriptor, number)


def wait_for_parent(parent: int) -> None:
    """Wait until the process between has ended and `parent` is the parent; the caller checks it."""
    deadline = time.monotonic() + ADOPTED_WITHIN_S
    while os.getppid() != parent and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)


def close_others(numbers: Sequence[int]) -> None:
    """Close all descriptors but the standard streams and these."""
    begin = 3
    for descriptor in sorted(numbers):
        os.closerange(begin, descriptor)
        begin = descriptor + 1
    os.closerange(begin, os.sysconf("SC_OPEN_MAX"))
