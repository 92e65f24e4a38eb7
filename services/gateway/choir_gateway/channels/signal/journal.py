"""Messages that have arrived and that control has not stored yet, on disk.

signal-cli hands a message over once and forgets it. So the message is written here before anything else
happens with it, one file each, and removed when control has stored it. After a crash the rest is handled at
the start.
"""

import asyncio
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import structlog

log = structlog.get_logger("choir.gateway.signal")

MAX_ENTRIES = 10_000
"""If control is away for so long that more arrive, later ones are lost."""
SUFFIX, PARTIAL_SUFFIX = ".json", ".part"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A frame of the WebSocket."""

    number: int
    text: str


class SignalJournal:
    """The journal of one gateway; its entries are handled in the order of their arrival."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting: deque[JournalEntry] = deque()
        self._arrival = asyncio.Event()
        self._next_number = 1
        self.error = ""
        """Why messages are not stored, for operators."""
        self._load()

    async def store(self, text: str) -> None:
        """Add an entry; it is on disk when this returns."""
        if len(self._waiting) >= MAX_ENTRIES:
            self.error = f"Control is away and {MAX_ENTRIES} messages wait; later ones are lost."
            log.error("message lost", waiting=len(self._waiting))
            return
        entry = JournalEntry(self._next_number, text)
        self._next_number += 1
        try:
            await asyncio.to_thread(self._write, entry)
            self.error = ""
        except OSError as error:
            # It is handled from memory, and lost only if the gateway ends before that.
            self.error = (
                f"Messages cannot be written to {self._directory} ({type(error).__name__})."
            )
            log.error("message not written", path=str(self._directory), error=str(error))
        self._waiting.append(entry)
        self._arrival.set()

    async def first(self) -> JournalEntry:
        """Return the oldest entry; wait for one if there is none."""
        while not self._waiting:
            self._arrival.clear()
            await self._arrival.wait()
        return self._waiting[0]

    async def remove(self, entry: JournalEntry) -> None:
        """Remove the oldest entry, which was handled."""
        self._waiting.popleft()
        try:
            await asyncio.to_thread(self._path(entry.number).unlink, missing_ok=True)
        except OSError as error:
            # It is recognised by its id when it is read again.
            log.error("message not removed", path=str(self._directory), error=str(error))

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:012d}{SUFFIX}"

    def _write(self, entry: JournalEntry) -> None:
        self._directory.mkdir(0o700, parents=True, exist_ok=True)
        path = self._path(entry.number)
        part = path.with_suffix(PARTIAL_SUFFIX)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(entry.text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    def _load(self) -> None:
        try:
            paths = sorted(self._directory.glob(f"*{SUFFIX}"))
        except OSError as error:
            log.error("journal not read", path=str(self._directory), error=str(error))
            return
        for path in paths:
            if not path.stem.isdecimal():
                continue
            try:
                self._waiting.append(JournalEntry(int(path.stem), path.read_text()))
            except (OSError, ValueError) as error:
                log.error("message not read", path=str(path), error=str(error))
            self._next_number = int(path.stem) + 1
