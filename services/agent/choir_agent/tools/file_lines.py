"""Count and locate lines in files of any size without loading them into memory. Read-only.

Only a line feed ends a line, as in ripgrep and in editors, so line numbers agree between tools.
"""

import hashlib
from dataclasses import dataclass
from typing import BinaryIO

CHUNK = 1 << 18
# Hex digits of the SHA-256: enough to detect every accidental change.
HASH_CHARS = 16


@dataclass(frozen=True, slots=True)
class FileOverview:
    """A file's size in bytes, number of lines and hash, from a single read."""

    size: int
    lines: int
    hash: str


def scan_file(file: BinaryIO) -> FileOverview:
    """Read the whole file once, from its start."""
    file.seek(0)
    size = breaks = 0
    last = b"\n"
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        size += len(chunk)
        breaks += chunk.count(b"\n")
        digest.update(chunk)
        last = chunk[-1:]
    return FileOverview(size, breaks + (last != b"\n"), digest.hexdigest()[:HASH_CHARS])


def content_hash(content: bytes) -> str:
    """Return the hash that `scan_file` computes for a file with that content."""
    return hashlib.sha256(content).hexdigest()[:HASH_CHARS]


def split_lines(content: bytes) -> list[bytes]:
    """Return the lines of `content`, each with its line break."""
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def line_offset(file: BinaryIO, line: int) -> int:
    """Return the byte offset of a line, counted from 1; the file's size for one past the last."""
    file.seek(0)
    offset, missing = 0, line - 1
    while missing > 0 and (chunk := file.read(CHUNK)):
        breaks = chunk.count(b"\n")
        if breaks < missing:
            missing -= breaks
            offset += len(chunk)
            continue
        position = -1
        for _ in range(missing):
            position = chunk.index(b"\n", position + 1)
        return offset + position + 1
    return offset


def drop_partial_character(content: bytes) -> bytes:
    """Return `content` without an incomplete UTF-8 character at its end."""
    for back in range(1, min(4, len(content)) + 1):
        byte = content[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return content[:-back] if needed > back else content
    return content
