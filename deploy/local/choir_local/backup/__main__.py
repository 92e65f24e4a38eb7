"""One scheduled backup: `python -m choir_local.backup`. Started by `backup_schedule`."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from importlib import metadata

from choir_common.errors import ChoirError
from choir_local.backup.create import BackupRequest, create_home_backup
from choir_local.backup.passphrase import backup_config, backup_directory, stored_passphrase
from choir_local.backup.sources import BackupScope
from choir_local.backup.storage import SCHEDULED, backup_name, prune_backups
from choir_local.home import Home
from choir_local.settings import LocalSettings

NICENESS = 10


def main() -> int:
    """Write a backup and delete those that the rule does not keep; return the exit code."""
    os.nice(NICENESS)
    settings = LocalSettings.load()
    home = Home(settings.home.expanduser().absolute())
    try:
        config = backup_config(home)
        if config is None:
            return 0
        directory = backup_directory(home)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        passphrase = stored_passphrase(home) if config.secret else None
        encrypted = passphrase is not None
        name = backup_name(datetime.now(UTC), SCHEDULED, encrypted=encrypted)
        scope = BackupScope(secrets=encrypted, workspaces=config.workspaces)
        version = metadata.version("choir-local")
        request = BackupRequest(directory / name, version, passphrase, scope)
        asyncio.run(create_home_backup(settings, request, lambda _: None))
        prune_backups(directory, config.keep)
    except (ChoirError, OSError) as error:
        sys.stderr.write(f"The scheduled backup failed: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
