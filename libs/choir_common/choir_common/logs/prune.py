"""Deletion of archived logs by age and size. Called by `file`, in its thread.

Every writer checks the archives of all sources, since a removed agent writes no more. Several may run at
the same time.
"""

import contextlib
import time
from pathlib import Path

from choir_common.logs.limits import LogLimits

DAY_S = 86_400.0
MB = 1 << 20
KEPT = "*.log*"


def prune(archive: Path, limits: LogLimits) -> None:
    """Delete files past the retention period, then each source's oldest files above its size limit.

    The newest file of a source always stays. A file that cannot be deleted is tried again next time.
    """
    oldest = time.time() - limits.log_archive_keep_days * DAY_S
    for source in archive.iterdir() if archive.is_dir() else ():
        # The names are timestamps.
        files = sorted((path for path in source.glob(KEPT) if path.is_file()), reverse=True)
        kept = 0
        for place, path in enumerate(files):
            with contextlib.suppress(OSError):
                found = path.stat()
                kept += found.st_size
                too_much = kept > limits.log_archive_keep_mb * MB
                if place and (too_much or found.st_mtime < oldest):
                    path.unlink()
