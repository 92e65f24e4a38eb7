"""What the steps of an upgrade do on the embedded installation."""

import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import assert_never

from choir_common.errors import StartupError
from choir_common.extras import installed_version
from choir_common.i18n import _
from choir_local.backup.create import BackupRequest, create_home_backup
from choir_local.backup.passphrase import backup_directory, stored_passphrase
from choir_local.backup.sources import BackupScope
from choir_local.backup.storage import backup_name
from choir_local.database.connection import configured_server
from choir_local.home import Home
from choir_local.settings import LocalSettings
from choir_local.stack import kill_stack, stop_stack
from choir_local.upgrade.code import CodeSource, code_source, installed_program
from choir_local.upgrade.programs import VERIFY_WITHIN, repeat_until_done, run_command
from choir_local.upgrade.record import STEP_VARIABLE, Step, UpgradeRecord
from choir_local.upgrade.server_snapshot import ExternalSnapshot
from choir_local.upgrade.snapshot import DatabaseSnapshot, EmbeddedSnapshot
from choir_local.version_record import check_version, version_file

START_WITHIN = timedelta(minutes=7)
RESTART_WITHIN = timedelta(minutes=3)
SPACE_RESERVE = 500_000_000
"""Bytes that stay free beside the backup and the copy of the database."""
DATABASE_COPIES = 2


class EmbeddedSteps:
    """The steps of one upgrade of one home."""

    def __init__(self, settings: LocalSettings, record: UpgradeRecord, program: Path | None = None):
        self._settings = settings
        self._home = Home(settings.home.expanduser().absolute())
        self._code: CodeSource = code_source(record.code)
        self._program = program or installed_program()
        self._snapshot: DatabaseSnapshot = _snapshot(settings, self._home)

    @property
    def uses_external_server(self) -> bool:
        """Return whether the database is on a server that config.json names."""
        return isinstance(self._snapshot, ExternalSnapshot)

    async def run(self, step: Step, record: UpgradeRecord) -> UpgradeRecord:
        """Do one step; return the record."""
        match step:
            case "prepare":
                check_version(self._home, backup_directory(self._home))
                check_space(self._home, await self._snapshot.database_size())
                return record.model_copy(update={"code": await self._code.prepare(record)})
            case "backup":
                return record.model_copy(update={"backup": str(await self._back_up(record))})
            case "stop" | "halt":
                await self._stop(patient=step == "stop")
            case "snapshot":
                await self._snapshot.make()
            case "switch":
                await self._code.switch(record)
            case "migrate":
                await self._choirctl("db", "migrate", "--json")
                await self._snapshot.check_heads()
            case "start" | "start_again":
                await self._start(record, again=step == "start_again")
            case "verify":
                await self._verify(record)
            case "switch_back":
                await self._code.switch_back(record)
            case "restore":
                if record.last_forward not in ("stop", "snapshot"):
                    await self._snapshot.restore()
                    # the new version may have recorded itself when it was ready
                    version_file(self._home).unlink(missing_ok=True)
            case "finish":
                await self._snapshot.remove()
                self._code.remove_rest()
            case _:
                assert_never(step)
        return record

    async def _back_up(self, record: UpgradeRecord) -> Path:
        passphrase = stored_passphrase(self._home)
        encrypted = passphrase is not None
        directory = backup_directory(self._home)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = directory / backup_name(record.made_at, "upgrade", encrypted=encrypted)
        # of an attempt that was killed just afterwards
        target.unlink(missing_ok=True)
        # an upgrade does not touch workspaces, and a restore into the same home keeps them
        scope = BackupScope(secrets=encrypted, workspaces=False)
        version = installed_version()
        request = BackupRequest(target, version, passphrase, scope)
        await create_home_backup(self._settings, request, lambda _: None)
        return target

    async def _stop(self, *, patient: bool) -> None:
        try:
            await stop_stack(self._home)
        except StartupError:
            if patient:
                raise
            kill_stack(self._home)
            await stop_stack(self._home)

    async def _start(self, record: UpgradeRecord, *, again: bool) -> None:
        # the old code is gone, and the new one would migrate the database again
        if again and (not record.was_running or record.code.kind == "installed"):
            return
        # it waits for a stack that an interrupted attempt started
        start = partial(self._choirctl, "up", "--detach", "--json")
        if again:
            # nothing comes after it: a machine that is busy must not leave Choir stopped
            await repeat_until_done(start, RESTART_WITHIN)
        else:
            await start()

    async def _verify(self, record: UpgradeRecord) -> None:
        await repeat_until_done(lambda: self._choirctl("status", "--json"), VERIFY_WITHIN)
        if not record.was_running:
            await self._stop(patient=True)

    async def _choirctl(self, *words: str) -> str:
        """Run a command of the version that is installed now."""
        home = ("--home", str(self._home.root))
        return await run_command(
            self._program, *words, *home, env={STEP_VARIABLE: "1"}, within=START_WITHIN
        )


def _snapshot(settings: LocalSettings, home: Home) -> DatabaseSnapshot:
    external = ExternalSnapshot(settings, home)
    # a config.json that cannot be read names no server: the database of this upgrade is still that one
    if configured_server(home) is not None or external.exists():
        return external
    return EmbeddedSnapshot(settings, home)


def check_space(home: Home, size: int) -> None:
    """Raise StartupError if the backup and the copy of a database of `size` bytes have no room."""
    needed = size * DATABASE_COPIES + SPACE_RESERVE
    free = shutil.disk_usage(home.root).free
    if free < needed:
        raise StartupError(
            _(
                "{root} has {free:,.0f} MB free; the upgrade needs {needed:,.0f} MB for a backup "
                "and a copy of the database."
            ).format(root=home.root, free=free / 1000000.0, needed=needed / 1000000.0)
        )
