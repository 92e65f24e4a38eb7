"""In-memory fake of `clients.control`."""

import contextlib
from collections.abc import AsyncIterator

from choir_common.errors import ChoirError, NotFound

PIECE = 8 * 1024


class FakeOutboxFiles:
    """Attachments of undelivered messages, by outbox id and ref."""

    def __init__(self) -> None:
        self.files: dict[tuple[int, str], bytes | ChoirError] = {}

    @contextlib.asynccontextmanager
    async def open(self, outbox_id: int, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the bytes of a file. Raises NotFound, or the error registered for it."""
        yield _pieces(self.files.get((outbox_id, ref)))


def _pieces(found: bytes | ChoirError | None) -> AsyncIterator[bytes]:
    if found is None:
        raise NotFound("There is no such file.")
    if isinstance(found, ChoirError):
        raise found
    return _in_pieces(found)


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]
