"""Store blobs until they are fetched, in unnamed temporary files that vanish with this process.

Filled by `pages`; emptied by the HTTP route in endpoints.py, and by expiry.
"""

import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import IO

from choir_common.clock import Clock
from choir_common.errors import NotFound, TooLarge, Unavailable
from choir_common.wire.browser import DownloadHandle

# Control fetches immediately; a blob that was not fetched by then never will be.
LIFETIME = timedelta(seconds=60)
MAX_BLOBS = 32
CHUNK_BYTES = 256 * 1024


class BlobWriter:
    """A file that is still being written."""

    def __init__(self, max_bytes: int) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="choir-")  # noqa: SIM115 - kept open
        self.size = 0
        self.max_bytes = max_bytes
        self.too_large = f"It is larger than the limit of {max_bytes // 1_000_000} MB."

    def write(self, piece: bytes) -> None:
        """Append to it; blocking, so call it with small pieces. Raises TooLarge."""
        self.size += len(piece)
        if self.size > self.max_bytes:
            raise TooLarge(self.too_large)
        self.file.write(piece)

    def close(self) -> None:
        """Close and thereby delete it."""
        self.file.close()


@dataclass(frozen=True, slots=True)
class _StoredBlob:
    file: IO[bytes]
    until: float


class BlobStore:
    """Stores blobs for one minute."""

    def __init__(self, clock: Clock, max_bytes: int) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._blobs: dict[str, _StoredBlob] = {}

    def new_blob(self) -> BlobWriter:
        """Start a file."""
        return BlobWriter(self._max_bytes)

    def store(self, draft: BlobWriter, name: str, mime: str) -> DownloadHandle:
        """Store a finished file for a minute under a random 256-bit id.

        Raises Unavailable if too many files are stored.
        """
        self.delete_expired()
        if len(self._blobs) >= MAX_BLOBS:
            draft.close()
            raise Unavailable(
                "Too many files are waiting to be fetched from the browser; try again."
            )
        blob_id = secrets.token_urlsafe(32)
        draft.file.seek(0)
        self._blobs[blob_id] = _StoredBlob(
            draft.file, self._clock.monotonic() + LIFETIME.total_seconds()
        )
        return DownloadHandle(blob_id=blob_id, name=name, mime=mime, size=draft.size)

    def fetch(self, blob_id: str) -> Iterator[bytes]:
        """Return a blob's pieces, once; reading them blocks.

        Raises NotFound if it expired, was fetched already or never existed.
        """
        self.delete_expired()
        # Removed before it is read, so that two requests cannot get it.
        blob = self._blobs.pop(blob_id, None)
        if blob is None:
            raise NotFound("No such file; each can be fetched once, within a minute.")
        return _pieces(blob.file)

    def delete_expired(self) -> None:
        """Delete expired blobs."""
        now = self._clock.monotonic()
        for blob_id in [key for key, blob in self._blobs.items() if blob.until < now]:
            self._blobs.pop(blob_id).file.close()

    def close(self) -> None:
        """Delete all blobs."""
        for blob in self._blobs.values():
            blob.file.close()
        self._blobs.clear()


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
