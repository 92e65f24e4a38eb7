"""Log of one child: a new pipe for each of its processes, and one file for all of them."""

import json
import os
from pathlib import Path

from choir_common.logs.file import LogFile
from choir_common.logs.pump import LineWriter, PipeReader
from choir_common.logs.retention import LogLimitsSource
from choir_common.redactor import Redactor

SETTLED_S = 1.0
TAIL_BYTES = 4096


class ChildLog:
    """The log file of a child and the pipe that feeds it."""

    def __init__(
        self,
        path: Path,
        redactor: Redactor | None = None,
        limits: LogLimitsSource | None = None,
    ) -> None:
        """Configure `<source>.log`."""
        self.path = path
        self._file = LogFile(path.parent, path.stem, limits)
        self._redactor = redactor or Redactor()
        self._pump: PipeReader | None = None

    async def open_pipe(self) -> int:
        """Return the write end of a pipe for a new child; the caller closes it once the child has it.

        Raises OSError.
        """
        self._file.open()
        writer = LineWriter(self._file, self.path.stem, self._redactor)
        self._pump, write_end = await PipeReader.open(writer)
        return write_end

    async def wait_complete(self) -> None:
        """Wait briefly until the last output of a child that ended is in the file."""
        if self._pump is not None:
            await self._pump.settled(SETTLED_S)

    async def close(self) -> None:
        """Read the remaining output and close the file."""
        await self.wait_complete()
        if self._pump is not None:
            self._pump.close()
        self._file.close()


def read_log_tail(log: Path, lines: int = 4) -> str:
    """Return the last `lines` lines of `log` joined in one line, or "" if there are none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return " | ".join(_message(line.strip()) for line in text.splitlines()[-lines:] if line.strip())


def _message(line: str) -> str:
    """Return the message of a JSON log line."""
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return str(value.get("message", line)) if isinstance(value, dict) else line
