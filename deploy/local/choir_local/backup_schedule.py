"""Regular backups while the stack runs, by the section `backup` of config.json.

Containers run it as a program of its own: `python -m choir_local.backup_schedule`. Each backup is written by
another process: compressing and encrypting gigabytes must not delay the supervisor. When the next one is due
follows from the newest file, so nothing has to be remembered over restarts.
"""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from datetime import UTC, datetime, timedelta

from choir_common.i18n import _
from choir_common.wire.backup_config import BackupConfig
from choir_local.backup.failure import BackupFailureFile
from choir_local.backup.passphrase import backup_config, backup_directory
from choir_local.backup.restore_in_place import is_restore_unfinished
from choir_local.backup.storage import SCHEDULED, list_backups
from choir_local.home import Home
from choir_local.launch import clean_environment
from choir_local.settings import LocalSettings

POLL_S = 60.0
RETRY_AFTER = timedelta(hours=1)
LONGEST = timedelta(hours=12)
SAID_BYTES = 2_000


def is_due(newest: datetime | None, config: BackupConfig, now: datetime) -> bool:
    """Return whether a backup is due; a time in the future, after a change of the clock, counts as none."""
    return newest is None or newest > now or now - newest >= config.interval


class BackupSchedule:
    """The schedule of one running stack."""

    def __init__(self, home: Home, settings: LocalSettings, *, poll_s: float = POLL_S) -> None:
        self._home = home
        self._settings = settings
        self._poll_s = poll_s
        self._failures = BackupFailureFile(home)
        self._rest_until: datetime | None = None

    async def run(self) -> None:
        """Back up whenever it is due, until cancelled."""
        while True:
            await asyncio.sleep(self._poll_s)
            now = datetime.now(UTC)
            if await asyncio.to_thread(self._is_due, now):
                failure = await self._back_up()
                self._rest_until = now + RETRY_AFTER if failure else None
                if failure:
                    # for `choirctl doctor`; a process that was killed has not kept it itself
                    await asyncio.to_thread(self._failures.write, now, failure)
                    sys.stderr.write(f"{failure}\n")

    def _is_due(self, now: datetime) -> bool:
        if self._rest_until is not None and now < self._rest_until:
            return False
        if is_restore_unfinished(self._home):
            return False  # files and database are of two states
        config = backup_config(self._home)
        if config is None:
            return False
        try:
            backups = list_backups(backup_directory(self._home))
        except OSError:
            backups = []  # the backup itself reports it
        newest = next((it.made_at for it in backups if it.reason == SCHEDULED), None)
        return is_due(newest, config, now)

    async def _back_up(self) -> str:
        """Write a backup; return why it failed, or an empty text."""
        environment = {**self._settings.as_environment(), "CHOIR_HOME": str(self._home.root)}
        if self._settings.postgres_dsn:
            environment["CHOIR_POSTGRES_DSN"] = self._settings.postgres_dsn
            environment["CHOIR_SECRETS_FILE"] = str(self._settings.secrets_file or "")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "choir_local.backup"),
            env=clean_environment(**environment),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
        )
        try:
            async with asyncio.timeout(LONGEST.total_seconds()):
                _output, stderr = await process.communicate()
        except TimeoutError:
            return _("The scheduled backup took longer than {longest} and was stopped.").format(
                longest=LONGEST
            )
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        return stderr[-SAID_BYTES:].decode(errors="replace").strip() if process.returncode else ""


async def main() -> None:
    """Back up whenever it is due, until SIGTERM."""
    settings = LocalSettings.load()
    schedule = BackupSchedule(Home(settings.home.expanduser().absolute()), settings)
    work = asyncio.ensure_future(schedule.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


if __name__ == "__main__":
    asyncio.run(main())
