"""The log of one child: a pipe for each of its lives, a file for all of them.

Called by `launch`, `running` and `supervisor`; the lines are `choir_common.logs`' affair.
"""

import json
from collections.abc import Callable
from pathlib import Path

from choir_common.logs.file import LogFile
from choir_common.logs.pump import Clean, LineWriter, Pump

SETTLED_S = 1.0
MOST_LINES = 100_000  # as in config.json, when that cannot be read


class ChildLog:
    """Where a child's output goes."""

    def __init__(
        self,
        path: Path,
        clean: Clean = str,
        most_lines: Callable[[], int] = lambda: MOST_LINES,
    ) -> None:
        """Describe `<source>.log`; `clean` is the redactor, `most_lines` what fits in one file."""
        self.path = path
        self._file = LogFile(path.parent, path.stem, most_lines)
        self._clean = clean
        self._pump: Pump | None = None

    async def pipe(self) -> int:
        """Return what a new child writes to; the caller closes it once the child has it.

        Raises OSError.
        """
        self._file.open()
        writer = LineWriter(self._file, self.path.stem, self._clean)
        self._pump, write_end = await Pump.open(writer)
        return write_end

    async def settled(self) -> None:
        """Wait a moment until the last words of a child that ended stand in the file."""
        if self._pump is not None:
            await self._pump.settled(SETTLED_S)

    async def close(self) -> None:
        """Read what is left, and close the file."""
        await self.settled()
        if self._pump is not None:
            self._pump.close()
        self._file.close()


class Threshold:
    """`log_archive_threshold_lines` of a config.json, read again when the file has changed."""

    def __init__(self, config_file: Path) -> None:
        self._file = config_file
        self._read_at = -1
        self._lines = MOST_LINES

    def __call__(self) -> int:
        """Return the number in force; control says what is wrong with the file."""
        try:
            changed = self._file.stat().st_mtime_ns
            if changed != self._read_at:
                self._read_at = changed
                found = json.loads(self._file.read_bytes())["log_archive_threshold_lines"]
                self._lines = found if isinstance(found, int) and found > 0 else MOST_LINES
        except (OSError, ValueError, TypeError, KeyError):
            self._lines = MOST_LINES if self._read_at == -1 else self._lines
        return self._lines
