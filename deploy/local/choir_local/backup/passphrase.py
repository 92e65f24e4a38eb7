"""Where the passphrase of backups comes from, apart from a prompt."""

from pathlib import Path

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.secret_file import read_secret_file
from choir_common.wire.backup_config import BackupConfig
from choir_local.config_values import read_config
from choir_local.home import Home

SHORTEST = 8  # characters
DEFAULT_SECRET = "backup-passphrase"  # noqa: S105 - a name


def read_passphrase_file(path: Path) -> bytes:
    """Return the first line of a file. Raises NotFound, and InvalidRequest if it is too short."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise NotFound(
            _("{path} cannot be read: {strerror}.").format(path=path, strerror=error.strerror)
        ) from error
    return check_passphrase(lines[0] if lines else b"")


def check_passphrase(passphrase: bytes) -> bytes:
    """Return the passphrase. Raises InvalidRequest if it is too short to protect anything."""
    if len(passphrase) < SHORTEST:
        raise InvalidRequest(
            _("The passphrase needs at least {shortest} characters.").format(shortest=SHORTEST)
        )
    return passphrase


def stored_passphrase(home: Home) -> bytes | None:
    """Return the passphrase that secrets.json has for backups; None if it has none.

    It is the secret that `backup.secret` names, else `backup-passphrase`. Raises NotFound if the named one is
    missing.
    """
    config = backup_config(home)
    name = config.secret if config else None
    try:
        secrets = read_secret_file(home.secrets_file)
    except NotFound:
        secrets = {}
    value = secrets.get(name or DEFAULT_SECRET)
    if value is None and name is not None:
        raise NotFound(
            _(
                "config.json names the secret {name!r} for backups, which does not exist. Set it "
                "with `choirctl secret set {name}`."
            ).format(name=name)
        )
    return check_passphrase(value.encode()) if value is not None else None


def backup_config(home: Home) -> BackupConfig | None:
    """Return the section `backup` of config.json."""
    config = read_config(home.config_file)
    return config.backup if config else None


def backup_directory(home: Home) -> Path:
    """Return the directory of this home's backups."""
    config = backup_config(home)
    return Path(config.path) if config and config.path else home.root / "backups"
