"""Ogg Opus files for tests: valid pages, whose tags contain the words that are said in them."""

import re
import struct

OPUS_RATE = 48_000
PRE_SKIP = 312
PAGE_BYTES = 2_000
WORDS = re.compile(rb"WORDS=(.*?)\x00", re.DOTALL)


def make_speech(words: str, seconds: float = 2.5, size: int = 4_000) -> bytes:
    """Return a file of this duration in which `words` are said."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, PRE_SKIP, OPUS_RATE, 0, 0)
    comment = b"WORDS=" + words.encode() + b"\x00"
    tags = b"OpusTags" + struct.pack("<I4sI", 4, b"test", 1)
    tags += struct.pack("<I", len(comment)) + comment
    audio = (bytes(range(1, 200)) * (size // 199 + 1))[:size]
    end = PRE_SKIP + round(seconds * OPUS_RATE)
    parts = [audio[at : at + PAGE_BYTES] for at in range(0, size, PAGE_BYTES)]
    return b"".join(
        [
            _page(head, 0, 0, flags=2),
            _page(tags, 0, 1),
            # no packet ends on these
            *(_page(part, -1, number) for number, part in enumerate(parts[:-1], 2)),
            _page(parts[-1], end, len(parts) + 1, flags=4),
        ]
    )


def words_of(speech: bytes) -> str:
    """Return the words that are said in a file of `make_speech`."""
    found = WORDS.search(speech)
    return found[1].decode() if found else ""


def _page(payload: bytes, position: int, number: int, flags: int = 0) -> bytes:
    full, rest = divmod(len(payload), 255)
    lacing = b"\xff" * full + bytes([rest])
    header = struct.pack("<4sBBqIIIB", b"OggS", 0, flags, position, 7, number, 0, len(lacing))
    return header + lacing + payload
