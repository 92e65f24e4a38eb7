"""The memory of a running process, as root reads it."""

from collections.abc import Iterator
from pathlib import Path

CHUNK = 1 << 24
OVERLAP = 4_096
"""Bytes that are read twice, so that no text is cut in two."""


def read_memory(pid: int) -> Iterator[bytes]:
    """Yield the readable memory of a process in pieces; raises PermissionError without the right to."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            region, mode, *_ = line.split()
            if not mode.startswith("r") or line.endswith(("[vvar]", "[vsyscall]")):
                continue
            start, end = (int(text, 16) for text in region.split("-"))
            while start < end:
                try:
                    memory.seek(start)
                    yield memory.read(min(CHUNK, end - start))
                except (OSError, ValueError):  # unmapped meanwhile, or not backed by memory
                    pass
                start += CHUNK - OVERLAP
