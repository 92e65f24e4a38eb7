"""Whether the scheduled backups of a state directory are off, late or failed. Called by `doctor`."""

from datetime import datetime, timedelta
from pathlib import Path

from choir_common.i18n import _
from choir_common.wire.backup_config import BackupConfig
from choir_local.backup.failure import BackupFailure, BackupFailureFile
from choir_local.backup.passphrase import backup_config, backup_directory
from choir_local.backup.storage import SCHEDULED, list_backups
from choir_local.home import Home
from choirctl.output.printing import format_age

GRACE = timedelta(hours=2)
"""Time for a backup to be written, and for one more attempt after a failure."""
STACK_LOG, CONTAINER_LOG = "logs/stack.log", "`docker compose logs backups`"
OFF = _(
    "no scheduled backups: a broken disk would take everything. Add the section "
    "`backup` to config.json, see docs/backup.md."
)


def find_backup_problem(home: Home, now: datetime, log: str = STACK_LOG) -> str:
    """Return what is wrong with the scheduled backups and what to do; an empty text if nothing is.

    `log` is where the schedule writes, or the command that shows it.
    """
    config = backup_config(home)
    if config is None:
        return OFF
    directory = backup_directory(home)
    newest = next((it.made_at for it in list_backups(directory) if it.reason == SCHEDULED), None)
    failure = BackupFailureFile(home).read()
    return describe_backup_problem(config, directory, newest, failure, now, log)


def describe_backup_problem(
    config: BackupConfig,
    directory: Path,
    newest: datetime | None,
    failure: BackupFailure | None,
    now: datetime,
    log: str = STACK_LOG,
) -> str:
    """Return the problem with the newest scheduled backup of a directory, or an empty text.

    A failure counts until the next success: the last good backup may be recent, but no more will follow.
    """
    age = (
        _("the newest is {age} old").format(age=format_age(newest, now))
        if newest
        else _("there is none")
    )
    if failure is not None and (newest is None or newest <= failure.at):
        return _("the last one failed {age} ago: {reason} ({age2})").format(
            age=format_age(failure.at, now), reason=failure.reason, age2=age
        )
    if newest is None:
        return _(
            "no scheduled backup in {directory} yet. Choir makes one within minutes while it "
            "runs; see {log} if it does not."
        ).format(directory=directory, log=log)
    if now - newest > config.interval + GRACE:
        return _(
            "late: {age}, and `backup.every` is {every}. Choir backs up only while it runs; "
            "see {log} if it does."
        ).format(age=age, every=config.every, log=log)
    return ""
