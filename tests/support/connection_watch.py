"""Observation of the remote connections of a process tree, and a listing of the files in a directory."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

SAMPLE_INTERVAL_S = 0.02
TABLES = ("tcp", "tcp6", "udp", "udp6")
REMOTE, INODE = 2, 9
"""Columns of the kernel's socket tables in /proc/net."""
# in the kernel's notation: unconnected (IPv4, IPv6) and ::1; 127.0.0.0/8 is matched in `_distant_sockets`
LOCAL_ADDRESSES = ("00000000", "0" * 32, "0" * 24 + "01000000")


@dataclass
class ConnectionWatch:
    """Samples the sockets of a process tree for addresses outside this machine.

    A connection, or an unanswered DNS query, lasts longer than the interval between two samples.
    """

    pid: int
    remote_connections: set[tuple[str, str]] = field(default_factory=set)
    """Process names and the remote addresses they used, in the kernel's hexadecimal notation."""
    samples: int = 0

    def sample(self) -> None:
        """Take one sample."""
        # the tables cover the whole machine; finding a socket's owner is expensive, so only for remote ones
        distant = dict(_distant_sockets())
        if distant:
            for process in self._tree():
                for inode in _sockets_of(process.pid) & distant.keys():
                    self.remote_connections.add((_name(process), distant[inode]))
        self.samples += 1

    def _tree(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        return []


@contextlib.contextmanager
def watching_connections(pid: int) -> Iterator[ConnectionWatch]:
    """Take samples in a thread while the block runs."""
    watch, ended = ConnectionWatch(pid), threading.Event()

    def run() -> None:
        while not ended.wait(SAMPLE_INTERVAL_S):
            watch.sample()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()


def files_below(directory: Path) -> list[str]:
    """Return the relative paths of all files below a directory."""
    return sorted(
        str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()
    )


def _distant_sockets() -> Iterator[tuple[str, str]]:
    """Yield the inode and the remote address of each socket connected to another machine."""
    for table in TABLES:
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            columns = line.split()
            address = columns[REMOTE].partition(":")[0]
            mapped = address[16:24] == "FFFF0000" and address.startswith("0" * 16)
            is_here = address in LOCAL_ADDRESSES or (
                address[-8:].endswith("7F") and (len(address) == 8 or mapped)
            )
            if not is_here:
                yield columns[INODE], columns[REMOTE]


def _sockets_of(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in Path("/proc", str(pid), "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(entry.readlink())
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _name(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return process.name()
    return str(process.pid)
