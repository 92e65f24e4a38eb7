"""The mark of how far a mailbox was read, in a file from which a restarted gateway continues.

UIDs grow within one UIDVALIDITY (RFC 3501, 2.3.1.1). If the server assigns new ones, mail since the day
before the last accepted one is read again, and the short ids of accepted mail tell which is known.
"""

import asyncio
import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import structlog

log = structlog.get_logger("choir.gateway.email")

MAX_RECENT = 2_000
OVERLAP = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class MailboxMark:
    """How far a folder was read."""

    mailbox: str
    """The account and the folder; another one has other mail."""
    uid_validity: int
    uid: int
    """The newest mail that was read, whether accepted or not."""
    accepted_on: str
    """The day of the last accepted mail in UTC, or of the first start."""
    recent: tuple[str, ...] = ()
    """The short ids of accepted mail, newest last."""
    waiting: tuple[int, ...] = ()
    """Mail that its triggers could not take yet, the one to offer next first."""

    def after(self, uid: int) -> "MailboxMark":
        """Return the mark after a mail that was not accepted."""
        waiting = tuple(it for it in self.waiting if it != uid)
        return replace(self, uid=max(self.uid, uid), waiting=waiting)

    def after_waiting(self, uid: int) -> "MailboxMark":
        """Return the mark after a mail that must be offered again; it becomes the last of those."""
        mark = self.after(uid)
        return replace(mark, waiting=(*mark.waiting, uid))

    def after_taken(self, uid: int, now: datetime) -> "MailboxMark":
        """Return the mark after a mail that triggers have taken."""
        return replace(self.after(uid), accepted_on=self._day_after(now))

    def after_accepted(self, uid: int, mail_id: str, now: datetime) -> "MailboxMark":
        """Return the mark after an accepted mail."""
        recent = (*self.recent, mail_id)[-MAX_RECENT:]
        return replace(self.after(uid), accepted_on=self._day_after(now), recent=recent)

    def _day_after(self, now: datetime) -> str:
        # Mail that waits must be read again if the server assigns new UIDs.
        return self.accepted_on if self.waiting else now.astimezone(UTC).date().isoformat()

    @property
    def since(self) -> date:
        """Return the first day to read again after UIDs have changed."""
        return date.fromisoformat(self.accepted_on) - OVERLAP


class MailboxMarkStore:
    """The mark of one gateway."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def load(self) -> MailboxMark | None:
        """Return the mark; None if nothing was read yet."""
        return await asyncio.to_thread(self._load)

    async def store(self, mark: MailboxMark) -> None:
        """Replace the mark; it is on disk when this returns."""
        try:
            await asyncio.to_thread(self._write, json.dumps(asdict(mark)))
        except OSError as error:
            # Control recognises most repetitions, so go on without the file.
            log.error("read mark not stored", path=str(self._path), error=str(error))

    def _load(self) -> MailboxMark | None:
        try:
            content = json.loads(self._path.read_text())
            mark = MailboxMark(
                mailbox=str(content["mailbox"]),
                uid_validity=int(content["uid_validity"]),
                uid=int(content["uid"]),
                accepted_on=str(content["accepted_on"]),
                recent=tuple(str(it) for it in content["recent"]),
                waiting=tuple(int(it) for it in content.get("waiting", ())),
            )
            date.fromisoformat(mark.accepted_on)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("read mark lost; mail of the downtime is not read", error=str(error))
            return None
        return mark

    def _write(self, content: str) -> None:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(content)
        part.replace(self._path)
