"""The child process that reads files: `python -I -m choir_files.child MEMORY_MB CPU_S`.

Standard input is a Unix socket. Each request on it is the name of a format, with the descriptors of the file
and of a pipe for the answer. A fork of this process confines itself, reads the file and writes `+` and the
text or the reduced picture, or `-` and the reason why there is none. Then this process replies with the
fork's exit status. Parsers run in forks only, so that one file cannot influence how the next one is read.
"""

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import cast

from choir_files.conversion import convert, count_pages
from choir_files.errors import UnreadableFile
from choir_files.formats import ChildFormat
from choir_files.pictures import reduce_picture
from choir_files.sandbox import ConfinementError, ReadLimits, confine

READY = b"ready"
MAX_REQUEST = 100
NICENESS = 10
READ_SIZE = 1 << 20
OOM_SCORE = "800"
"""When memory runs out, the kernel kills this process before a service."""


def main(memory_mb: str, cpu_s: str) -> None:
    """Serve requests until the socket is closed."""
    limits = ReadLimits(int(memory_mb), int(cpu_s))
    os.nice(NICENESS)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    connection = socket.socket(fileno=os.dup(0))
    connection.sendall(READY)
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 2)
        if not request:
            return
        document, answer = descriptors
        process = os.fork()
        if process == 0:
            connection.close()
            os.close(0)
            read_file(cast(ChildFormat, request.decode()), document, answer, limits)
        os.close(document)
        os.close(answer)
        _, status = os.waitpid(process, 0)
        connection.sendall(status.to_bytes(4, sys.byteorder))


def read_file(file_format: ChildFormat, document: int, answer: int, limits: ReadLimits) -> None:
    """Answer with what a file contains, in a confined process, and end the process."""
    try:
        confine(limits)
        mark, content = b"+", _read(file_format, read_all(document))
    except ConfinementError as error:
        mark, content = b"-", f"is not read on this system, because {error}".encode()
    except UnreadableFile as error:
        mark, content = b"-", str(error).encode()
    except MemoryError:
        mark, content = b"-", f"needs more than {limits.memory_mb} MB of memory to be read".encode()
    except RecursionError:
        mark, content = b"-", b"is nested too deeply"
    except Exception as error:  # parsers raise anything for a damaged file
        mark, content = (
            b"-",
            f"is damaged, or not what its name says ({type(error).__name__})".encode(),
        )
    with contextlib.suppress(OSError, MemoryError):
        write_all(answer, mark + content)
    os._exit(0)


def _read(file_format: ChildFormat, content: bytes) -> bytes:
    if file_format == "picture":
        return reduce_picture(content)
    if file_format == "pages":
        return str(count_pages(content)).encode()
    return convert(file_format, content).encode()


def read_all(descriptor: int) -> bytes:
    """Return the content of an open file."""
    parts = []
    while part := os.read(descriptor, READ_SIZE):
        parts.append(part)
    return b"".join(parts)


def write_all(descriptor: int, content: bytes) -> None:
    """Write the whole content to a pipe."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
