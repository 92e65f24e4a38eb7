"""What the steps of an upgrade do on an installation of docker compose. Decision 117 has the reasons."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import assert_never

from choir_common.errors import Conflict, StartupError
from choir_common.i18n import _
from choir_local.backup.passphrase import stored_passphrase
from choir_local.backup.sources import BACKUPS
from choir_local.backup.storage import backup_name
from choir_local.database.connection import configured_server
from choir_local.home import Home
from choir_local.postgres_cluster import DATABASE
from choir_local.upgrade.compose_images import ComposeImages, compose_images
from choir_local.upgrade.compose_project import ComposeProject
from choir_local.upgrade.programs import (
    VERIFY_WITHIN,
    CommandRunner,
    repeat_until_done,
    run_command,
)
from choir_local.upgrade.record import Step, UpgradeRecord
from choir_local.upgrade.snapshot import BEFORE, FAILED, HEADS
from choir_local.upgrade.steps import DATABASE_COPIES, RESTART_WITHIN, SPACE_RESERVE
from choir_local.version_record import version_file

HAS_LOG = "SELECT to_regclass('choir_control.sessions') IS NOT NULL"


class ComposeSteps:
    """The steps of one upgrade of one compose project."""

    def __init__(self, home: Home, record: UpgradeRecord, run: CommandRunner = run_command) -> None:
        self._home = home
        self._project = ComposeProject(Path(record.code.directory), home, run)
        self._images: ComposeImages = compose_images(self._project, home, record, run)

    async def run(self, step: Step, record: UpgradeRecord) -> UpgradeRecord:
        """Do one step; return the record."""
        project = self._project
        match step:
            case "prepare":
                return await self._prepare(record)
            case "backup":
                return record.model_copy(update={"backup": str(await self._back_up(record))})
            case "stop" | "halt":
                await project.stop(await project.config())
            case "snapshot":
                await project.start_database()
                await self._copy_database()
            case "switch":
                await self._images.switch(record)
            case "migrate":
                await project.start_database()
                await project.choirctl(await project.config(), "db", "migrate", "--json")
                await self._check_heads()
            case "start":
                await project.start()
            case "start_again":
                if record.was_running:
                    await repeat_until_done(project.start, RESTART_WITHIN)
                await self._images.remove_rest()
            case "verify":
                status = ("exec", "-T", "control", "choirctl", "status", "--json")
                await repeat_until_done(partial(project.compose, *status), VERIFY_WITHIN)
            case "switch_back":
                await self._images.switch_back(record)
            case "restore":
                if record.last_forward not in ("stop", "snapshot"):
                    await self._restore_database()
            case "finish":
                await self._remove_rest(record)
            case _:
                assert_never(step)
        return record

    async def _prepare(self, record: UpgradeRecord) -> UpgradeRecord:
        """Check everything, and fetch the new images beside those in use."""
        server = configured_server(self._home)
        if server is not None:
            raise Conflict(
                _(
                    "{config_file} names the Postgres at {host}, which the upgrade of containers cannot copy "
                    "and put back. Upgrade by hand: `choirctl backup create`, then start the new version; it "
                    "migrates. To go back, restore that server from a copy of its own. See docs/upgrade.md."
                ).format(config_file=self._home.config_file, host=server.host)
            )
        # A version that is older than the database is refused by its own images. This choirctl may be
        # older than the containers, so it cannot tell.
        config = await self._project.config()
        self._images.check(config)
        await self._project.start_database()
        self._check_space(*await self._project.database_space())
        return record.model_copy(update={"code": await self._images.prepare(record, config)})

    @property
    def _backups(self) -> Path:
        # `backup.path` may be a directory that control's container does not see
        return self._home.root / BACKUPS

    def _check_space(self, size: int, free: int) -> None:
        needed = size * DATABASE_COPIES + SPACE_RESERVE
        free = min(free, shutil.disk_usage(self._home.root).free)
        if free < needed:
            raise StartupError(
                _(
                    "The upgrade needs {needed:,.0f} MB for a backup and a copy of the database; "
                    "{free:,.0f} MB are free in {root} and in the volume of Postgres."
                ).format(needed=needed / 1000000.0, free=free / 1000000.0, root=self._home.root)
            )

    async def _back_up(self, record: UpgradeRecord) -> Path:
        encrypted = stored_passphrase(self._home) is not None
        if not self._backups.exists():
            self._backups.mkdir(mode=0o700)
            owner = self._home.root.stat()
            # control writes into it as the owner of the state directory
            os.chown(self._backups, owner.st_uid, owner.st_gid)
        target = self._backups / backup_name(record.made_at, "upgrade", encrypted=encrypted)
        target.unlink(missing_ok=True)
        # an upgrade does not touch workspaces
        words = ("backup", "create", "--out", str(target), "--without-workspaces", "--json")
        secrets = () if encrypted else ("--without-secrets",)
        await self._project.choirctl(await self._project.config(), *words, *secrets)
        return target

    async def _copy_database(self) -> None:
        await self._project.sql(
            f'DROP DATABASE IF EXISTS "{BEFORE}"',
            f'CREATE DATABASE "{BEFORE}" TEMPLATE "{DATABASE}" STRATEGY FILE_COPY',
        )

    async def _restore_database(self) -> None:
        await self._project.start_database()
        if BEFORE in (await self._project.sql("SELECT datname FROM pg_database")).split():
            await self._project.sql(
                f'DROP DATABASE IF EXISTS "{FAILED}"',
                # one string is one transaction
                f'ALTER DATABASE "{DATABASE}" RENAME TO "{FAILED}"; '
                f'ALTER DATABASE "{BEFORE}" RENAME TO "{DATABASE}"',
            )
        # the new version may have recorded itself
        version_file(self._home).unlink(missing_ok=True)

    async def _check_heads(self) -> None:
        before, after = [await self._heads(name) for name in (BEFORE, DATABASE)]
        changed = sorted(before ^ after)
        if changed:
            session = changed[0].partition("|")[0]
            raise StartupError(
                _("The migration changed the log of session {session}.").format(session=session)
            )

    async def _heads(self, name: str) -> set[str]:
        if await self._project.sql(HAS_LOG, database=name) != "t":
            return set()
        return set((await self._project.sql(HEADS, database=name)).splitlines())

    async def _remove_rest(self, record: UpgradeRecord) -> None:
        await self._project.start_database()
        await self._project.sql(*(f'DROP DATABASE IF EXISTS "{name}"' for name in (BEFORE, FAILED)))
        if not record.was_running:
            await self._project.stop(await self._project.config(), everything=True)
        await self._images.remove_rest()
