"""The screen of an emulated terminal: what a person sees of what a program wrote.

A program may draw a line twice, or write only the characters of a line that changed. So tests count texts
on the screen and not in the output.
"""

import os

import pyte

SCROLLED_LINES = 1000


class EmulatedScreen(pyte.HistoryScreen):
    """A terminal that keeps the lines that scrolled away and answers requests for the cursor's position."""

    def __init__(self, *, columns: int, lines: int, fd: int) -> None:
        super().__init__(columns, lines, history=SCROLLED_LINES)
        self._fd = fd
        self._stream = pyte.ByteStream(self)

    def write_process_input(self, data: str) -> None:
        """Send an answer of the terminal to the program."""
        os.write(self._fd, data.encode())

    def feed(self, block: bytes) -> None:
        """Draw what the program wrote."""
        self._stream.feed(block)

    @property
    def text(self) -> str:
        """Return all lines, with those that scrolled away first."""
        rows = [*self.history.top, *(self.buffer[line] for line in range(self.lines))]
        lines = ("".join(row[column].data for column in range(self.columns)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)
