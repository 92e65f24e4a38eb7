"""A scheduled backup, by the section `backup` of config.json, and the deletion of those that are not kept."""

from datetime import UTC, datetime

from choir_common.errors import ChoirError
from choir_common.extras import installed_version
from choir_local.backup.create import BackupRequest, create_home_backup
from choir_local.backup.failure import BackupFailureFile
from choir_local.backup.manifest import BackupManifest
from choir_local.backup.passphrase import backup_config, backup_directory, stored_passphrase
from choir_local.backup.sources import BackupScope
from choir_local.backup.storage import SCHEDULED, backup_name, prune_backups, remove_partial_files
from choir_local.database.backup import ShowProgress
from choir_local.home import Home
from choir_local.settings import LocalSettings


async def make_scheduled_backup(
    settings: LocalSettings, show_progress: ShowProgress
) -> tuple[BackupRequest, BackupManifest] | None:
    """Write a backup and delete older ones; return None if config.json has no section `backup`.

    A failure is kept for `choirctl doctor` and raised.
    """
    home = Home(settings.home.expanduser().absolute())
    failures = BackupFailureFile(home)
    try:
        config = backup_config(home)
        if config is None:
            return None
        directory = backup_directory(home)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_partial_files(directory, datetime.now(UTC))
        passphrase = stored_passphrase(home) if config.secret else None
        encrypted = passphrase is not None
        name = backup_name(datetime.now(UTC), SCHEDULED, encrypted=encrypted)
        scope = BackupScope(secrets=encrypted, workspaces=config.workspaces)
        request = BackupRequest(directory / name, installed_version(), passphrase, scope)
        manifest = await create_home_backup(settings, request, show_progress)
        prune_backups(directory, config.keep)
    except (ChoirError, OSError) as error:
        failures.write(datetime.now(UTC), str(error))
        raise
    failures.write(datetime.now(UTC), "")
    return request, manifest
