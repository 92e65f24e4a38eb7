"""The log of one child: a pipe for each of its lives, a file for all of them.

Called by `launch`, `running` and `supervisor`; the lines are `choir_common.logs`' affair.
"""

from collections.abc import Callable
from pathlib import Path

from choir_common.logs.file import LogFile
from choir_common.logs.limits import LogLimits
from choir_common.logs.pump import Clean, LineWriter, Pump

SETTLED_S = 1.0


class ChildLog:
    """Where a child's output goes."""

    def __init__(
        self,
        path: Path,
        clean: Clean = str,
        limits: Callable[[], LogLimits] = LogLimits,
    ) -> None:
        """Describe `<source>.log`; `clean` is the redactor, `limits` how much of it is kept."""
        self.path = path
        self._file = LogFile(path.parent, path.stem, limits)
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
