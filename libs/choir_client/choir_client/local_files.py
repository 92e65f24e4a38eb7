"""Files of this machine that are uploaded."""

import os
import stat
from pathlib import Path

import httpx2

from choir_common.errors import InvalidRequest
from choir_common.i18n import _

CHUNK_BYTES = 256 * 1024
UPLOAD_TIMEOUT = DOWNLOAD_TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
"""For each chunk; the whole may take longer."""
READ_TIMEOUT = httpx2.Timeout(330.0, connect=5.0)
"""For files whose text is read before the answer."""


def size_of(path: Path) -> int:
    """Return the bytes of a file; raises InvalidRequest unless it is a readable regular file."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
    except OSError as error:
        raise InvalidRequest(
            _("Cannot read {path}: {strerror}.").format(path=path, strerror=error.strerror)
        ) from error
    # a pipe or device has no size, and may never end
    if not stat.S_ISREG(status.st_mode):
        raise InvalidRequest(_("{path} is not a regular file.").format(path=path))
    return status.st_size
