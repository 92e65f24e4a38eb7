"""`choirctl doctor` says when scheduled backups are off, late or failed."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_local.backup.failure import BackupFailureFile
from choir_local.backup.storage import backup_name
from choir_local.backup_schedule import BackupSchedule
from choir_local.home import Home
from choir_local.settings import LocalSettings
from choirctl.start.backup_state import CONTAINER_LOG, OFF, find_backup_problem

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.make()
    (tmp_path / "config.json").write_text(
        json.dumps({"agents": {}, "workspaces": {}, "backup": {"every": "1d"}})
    )
    (tmp_path / "backups").mkdir()
    return home


def make_backup(home: Home, age: timedelta, reason: str = "scheduled") -> None:
    (home.root / "backups" / backup_name(NOW - age, reason, encrypted=True)).touch()


def test_backups_that_are_off_or_late_are_named(home: Home) -> None:
    make_backup(home, timedelta(minutes=5), "upgrade")
    assert "see logs/stack.log" in find_backup_problem(home, NOW)
    assert "compose logs backups" in find_backup_problem(home, NOW, CONTAINER_LOG)
    make_backup(home, timedelta(days=3))
    problem = find_backup_problem(home, NOW)
    assert "late: the newest is 3d old, and `backup.every` is 1d" in problem
    # in its grace, then a new one
    make_backup(home, timedelta(hours=25))
    assert find_backup_problem(home, NOW) == ""
    home.config_file.write_text(json.dumps({"agents": {}, "workspaces": {}}))
    assert find_backup_problem(home, NOW) == OFF


async def test_a_failure_is_named_until_a_backup_succeeds(home: Home) -> None:
    """The schedule itself runs: this home has no database, so its backup fails."""
    settings = LocalSettings(home=home.root)
    schedule = asyncio.create_task(BackupSchedule(home, settings, poll_s=0.05).run())
    try:
        async with asyncio.timeout(60):
            while BackupFailureFile(home).read() is None:
                await asyncio.sleep(0.05)
    finally:
        schedule.cancel()
    now = datetime.now(UTC)
    problem = find_backup_problem(home, now)
    assert "no embedded database" in problem and "there is none" in problem
    failure = BackupFailureFile(home).read()
    assert failure is not None
    # a backup from before the failure does not hide it; one from after it does
    make_backup(home, NOW - failure.at + timedelta(hours=1))
    assert "failed" in find_backup_problem(home, now)
    make_backup(home, NOW - failure.at - timedelta(seconds=5))
    assert find_backup_problem(home, now) == ""
    BackupFailureFile(home).write(NOW, "")
    assert BackupFailureFile(home).read() is None
