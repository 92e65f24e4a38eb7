"""Duration of an Ogg Opus file, from its page headers.

Voice notes of Telegram and speech in the format `opus` are such files.
"""

import os
import struct

CAPTURE = b"OggS"
OPUS_HEAD = b"OpusHead"
OPUS_RATE = 48_000
"""Granule positions of Opus count samples at this rate, whatever rate was recorded."""
PAGE_HEADER = struct.Struct("<4sBBqIIIB")
VERSION = 0
NO_POSITION = -1
"""Granule position of a page on which no packet ends."""
HEAD_BYTES = 4_096
TAIL_BYTES = 65_536 + PAGE_HEADER.size
"""The longest page: the file's last one begins within these bytes."""


def is_ogg(content: bytes) -> bool:
    """Return whether the content begins with an Ogg page."""
    return content.startswith(CAPTURE)


def opus_seconds(head: bytes, tail: bytes) -> float | None:
    """Return the duration of an Ogg Opus file from its first and last bytes; None if it is not one."""
    at = head.find(OPUS_HEAD)
    if not is_ogg(head) or at < 0 or len(head) < at + 12:
        return None
    (pre_skip,) = struct.unpack_from("<H", head, at + 10)
    page = len(tail)
    while (page := tail.rfind(CAPTURE, 0, page)) >= 0:
        if page + PAGE_HEADER.size > len(tail):
            continue
        header = PAGE_HEADER.unpack_from(tail, page)
        version, position = int(header[1]), int(header[3])
        # audio may contain the same four bytes
        if version == VERSION and position != NO_POSITION:
            return max(0, position - int(pre_skip)) / OPUS_RATE
    return None


def read_opus_seconds(descriptor: int) -> float | None:
    """Return the duration of an open file in seconds; None if it is not Ogg Opus. Blocking."""
    size = os.fstat(descriptor).st_size
    head = os.pread(descriptor, HEAD_BYTES, 0)
    return opus_seconds(head, os.pread(descriptor, TAIL_BYTES, max(0, size - TAIL_BYTES)))
