"""Journal of the users' messages on disk: which ones were handled, and when each user wrote last.

Meta repeats an update for up to seven days, and its signatures contain no time. So a message that is in the
journal, or is older than the journal reaches back, is not handled again. The time of a user's last message
opens a window of 24 hours for replies. Called by `receiver` and `sender`.

After the erasure of a user, a line has the digest of the message's id alone, so that a repetition cannot
bring back what was erased.
"""

import asyncio
import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from choir_common.errors import Unavailable
from choir_common.i18n import _

log = structlog.get_logger("choir.gateway.whatsapp")

REACH_S = 8 * 24 * 3600.0
WINDOW_S = 24 * 3600.0
CLOCK_TOLERANCE_S = 60.0
"""The window ends for Choir a little earlier than for WhatsApp, whose clock may differ."""
MAX_ENTRIES = 100_000
MAX_USERS = 10_000
COMPACT_AFTER = 10_000
ID_CHARS = 32


@dataclass(frozen=True, slots=True)
class LastMessage:
    """A user's newest message."""

    message_id: str
    sent_at: float
    """Seconds since 1970, by WhatsApp's clock."""


@dataclass(frozen=True, slots=True)
class _JournalEntry:
    """A message that was handled."""

    sent_at: float
    user_id: str
    """Empty if the user was erased."""
    message_id: str
    """The digest of the id if the user was erased."""

    @property
    def digest(self) -> str:
        return _digest(self.message_id) if self.user_id else self.message_id

    def without_user(self) -> "_JournalEntry":
        return _JournalEntry(self.sent_at, "", self.digest)

    def to_line(self) -> str:
        return json.dumps([self.sent_at, self.user_id, self.message_id]) + "\n"


class MessageJournal:
    """The journal of one gateway."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = 0
        self._file_lock = asyncio.Lock()
        self._handled: OrderedDict[str, float] = OrderedDict()
        self._last: dict[str, LastMessage] = {}
        self._load()

    def is_handled(self, message_id: str, sent_at: float) -> bool:
        """Return whether a message was handled before, or is so old that nobody knows."""
        return _digest(message_id) in self._handled or sent_at < time.time() - REACH_S

    def note_arrival(self, user_id: str, message_id: str, sent_at: float) -> None:
        """Open the window of a user. In memory only: a reply may be ready before the message is recorded."""
        before = self._last.get(user_id)
        # Nobody writes in the future, and WhatsApp does not promise an order.
        sent_at = min(sent_at, time.time())
        if before is None or sent_at >= before.sent_at:
            self._last[user_id] = LastMessage(message_id, sent_at)
        if len(self._last) > MAX_USERS:
            del self._last[next(iter(self._last))]

    async def record(self, user_id: str, message_id: str, sent_at: float) -> None:
        """Record a message as handled; it is on disk when this returns."""
        self._remember(_digest(message_id), sent_at)
        line = _JournalEntry(sent_at, user_id, message_id).to_line()
        try:
            async with self._file_lock:
                await asyncio.to_thread(self._append, line)
                self._lines += 1
                if self._lines > COMPACT_AFTER:
                    await asyncio.to_thread(_compact, self._path)
                    self._lines = 0
        except OSError as error:
            # Control recognises most repetitions, so go on without the file.
            log.error("message not recorded", path=str(self._path), error=str(error))

    async def erase_user(self, user_id: str) -> int:
        """Erase a user's lines; return their number. Raises Unavailable.

        The user's window is closed until the next message.
        """
        self._last.pop(user_id, None)
        try:
            async with self._file_lock:
                return await asyncio.to_thread(_erase_user, self._path, user_id)
        except OSError as error:
            raise Unavailable(
                _("WhatsApp's journal could not be written: {error}.").format(error=error.strerror)
            ) from error

    def last_message(self, user_id: str) -> LastMessage | None:
        """Return a user's newest message if its window is open."""
        last = self._last.get(user_id)
        if last is None or time.time() > last.sent_at + WINDOW_S - CLOCK_TOLERANCE_S:
            return None
        return last

    def close_window(self, user_id: str) -> None:
        """Note that WhatsApp regards a user's window as closed."""
        self._last.pop(user_id, None)

    def _remember(self, digest: str, sent_at: float) -> None:
        self._handled[digest] = sent_at
        while len(self._handled) > MAX_ENTRIES:
            self._handled.popitem(last=False)

    def _append(self, line: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(self._path, flags, 0o600), "a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _load(self) -> None:
        try:
            self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
            entries = _compact(self._path)
        except OSError as error:
            log.error("journal cannot be read", path=str(self._path), error=str(error))
            return
        for entry in entries:
            self._remember(entry.digest, entry.sent_at)
            if entry.user_id:
                self.note_arrival(entry.user_id, entry.message_id, entry.sent_at)


def _compact(path: Path) -> Sequence[_JournalEntry]:
    """Write the file again without old entries; return the others."""
    entries = _read(path)
    _write(path, entries)
    return entries


def _erase_user(path: Path, user_id: str) -> int:
    """Write the file again without what names a user; return how many entries did."""
    entries = _read(path)
    count = sum(entry.user_id == user_id for entry in entries)
    if count:
        _write(path, [it.without_user() if it.user_id == user_id else it for it in entries])
    return count


def _read(path: Path) -> list[_JournalEntry]:
    """Return the entries that are not too old."""
    oldest, entries = time.time() - REACH_S, list[_JournalEntry]()
    try:
        lines = path.read_text(errors="replace").splitlines()[-MAX_ENTRIES:]
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            sent_at, user_id, message_id = json.loads(line)
            entry = _JournalEntry(float(sent_at), str(user_id), str(message_id))
        except (ValueError, TypeError):
            # A crash may leave half a line.
            log.warning("a line of the journal is damaged", path=str(path))
            continue
        if entry.sent_at >= oldest:
            entries.append(entry)
    return entries


def _write(path: Path, entries: Sequence[_JournalEntry]) -> None:
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.writelines(entry.to_line() for entry in entries)
    part.replace(path)


def _digest(message_id: str) -> str:
    return hashlib.sha256(message_id.encode()).hexdigest()[:ID_CHARS]
