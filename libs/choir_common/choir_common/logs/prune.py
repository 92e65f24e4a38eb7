"""Delete archived logs that are too old or too many. Called by `file`, in its thread.

Every writer looks at the archives of all sources, since an agent that is gone writes no more; several may
look at the same time.
"""

import contextlib
import time
from pathlib import Path

from choir_common.logs.limits import LogLimits

DAY_S = 86_400.0
MB = 1 << 20
KEPT = "*.log*"


def prune(archive: Path, limits: LogLimits) -> None:
    """Delete what is older than the days to keep, then the oldest of each source that has too many bytes.

    The newest file of a source always stays. What cannot be deleted is left to the next look.
    """
    oldest = time.time() - limits.log_archive_keep_days * DAY_S
    for source in archive.iterdir() if archive.is_dir() else ():
        # the names are times
        files = sorted((path for path in source.glob(KEPT) if path.is_file()), reverse=True)
        kept = 0
        for place, path in enumerate(files):
            with contextlib.suppress(OSError):
                found = path.stat()
                kept += found.st_size
                too_much = kept > limits.log_archive_keep_mb * MB
                if place and (too_much or found.st_mtime < oldest):
                    path.unlink()
