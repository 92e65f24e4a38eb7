"""The directory of backups: names of files, what is there, and which of them are kept.

Names contain the time, so that a list needs no passphrase. Other files in the directory are left alone.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from choir_common.wire.backup_config import BackupRetention

NAME = re.compile(r"choir-(\d{8}T\d{6}Z)(?:-([a-z]+))?\.tar(\.age)?")
TIME = "%Y%m%dT%H%M%SZ"
SCHEDULED = "scheduled"
ABANDONED_AFTER = timedelta(minutes=30)
Period = Callable[[datetime], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A backup file, by its name."""

    path: Path
    made_at: datetime
    reason: str
    """`upgrade` or `scheduled`; empty for one that a person made."""
    encrypted: bool
    size: int
    """In bytes."""


def backup_name(now: datetime, reason: str = "", *, encrypted: bool) -> str:
    """Return the name of a new backup."""
    middle = f"-{reason}" if reason else ""
    return f"choir-{now:{TIME}}{middle}.tar{'.age' if encrypted else ''}"


def list_backups(directory: Path) -> list[StoredBackup]:
    """Return the backups in a directory, newest first; none if it does not exist."""
    if not directory.is_dir():
        return []
    backups = []
    for path in directory.iterdir():
        match = NAME.fullmatch(path.name)
        if match and path.is_file():
            at = datetime.strptime(match[1], TIME).replace(tzinfo=UTC)
            size = path.stat().st_size
            backups.append(StoredBackup(path, at, match[2] or "", bool(match[3]), size))
    return sorted(backups, key=lambda it: (it.made_at, it.path.name), reverse=True)


def select_kept(times: Iterable[datetime], rule: BackupRetention) -> set[datetime]:
    """Return which backups stay: the newest ones, and the newest of each of the last periods.

    As with `restic forget`, only periods with a backup count; so a machine that was off loses nothing.
    """
    newest_first = sorted(set(times), reverse=True)
    selection = set(newest_first[: rule.last])
    periods: tuple[tuple[int, Period], ...] = (
        (rule.daily, lambda at: (at.year, at.month, at.day)),
        (rule.weekly, lambda at: at.isocalendar()[:2]),
        (rule.monthly, lambda at: (at.year, at.month)),
    )
    for count, period in periods:
        selection.update(_newest_of_each(newest_first, period, count))
    return selection


def prune_backups(directory: Path, rule: BackupRetention) -> list[Path]:
    """Delete the scheduled backups that the rule does not keep; return their paths.

    Backups that a person or an upgrade made stay.
    """
    scheduled = [it for it in list_backups(directory) if it.reason == SCHEDULED]
    keep: Collection[datetime] = select_kept((it.made_at for it in scheduled), rule)
    removed = [it.path for it in scheduled if it.made_at not in keep]
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def remove_partial_files(directory: Path, now: datetime) -> None:
    """Delete what killed scheduled backups left. One that still grows is of another process."""
    for path in directory.glob(f".choir-*-{SCHEDULED}.tar*.partial"):
        with contextlib.suppress(FileNotFoundError):
            if now.timestamp() - path.stat().st_mtime > ABANDONED_AFTER.total_seconds():
                path.unlink()


def _newest_of_each(
    newest_first: Iterable[datetime], period: Period, count: int
) -> Iterable[datetime]:
    seen: set[tuple[int, ...]] = set()
    for at in newest_first:
        if len(seen) < count and period(at) not in seen:
            seen.add(period(at))
            yield at
