"""One scheduled backup: `python -m choir_local.backup`. Started by `backup_schedule`."""

import asyncio
import os
import signal
import sys

from choir_common.errors import ChoirError
from choir_local.backup.scheduled import make_scheduled_backup
from choir_local.settings import LocalSettings

NICENESS = 10


def main() -> int:
    """Write a backup and delete those that the rule does not keep; return the exit code."""
    os.nice(NICENESS)
    # an exception, so that the unfinished file is removed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        asyncio.run(make_scheduled_backup(LocalSettings.load(), lambda _: None))
    except (ChoirError, OSError) as error:
        sys.stderr.write(f"The scheduled backup failed: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
