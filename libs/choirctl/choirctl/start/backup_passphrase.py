"""The passphrase of a backup: from a file, the environment, the state directory, or a prompt."""

import sys
from pathlib import Path

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import read_env
from choir_local.backup.passphrase import (
    DEFAULT_SECRET,
    check_passphrase,
    read_passphrase_file,
    stored_passphrase,
)
from choir_local.home import Home
from choirctl.output.language import tr

VARIABLE = "CHOIR_BACKUP_PASSPHRASE_FILE"


def find_passphrase(home: Home, file: Path | None) -> bytes | None:
    """Return the passphrase that is configured; None if there is none.

    `--passphrase-file` counts first, then CHOIR_BACKUP_PASSPHRASE_FILE, then the secret.
    """
    path = file or (Path(value) if (value := read_env(VARIABLE)) else None)
    return read_passphrase_file(path) if path else stored_passphrase(home)


def require_passphrase(home: Home, file: Path | None, *, new: bool) -> bytes:
    """Return the passphrase, asked for on a terminal if none is configured; twice for a `new` backup.

    Raises InvalidRequest without a terminal.
    """
    passphrase = find_passphrase(home, file)
    if passphrase is not None:
        return passphrase
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        leave_out = (
            _(" --without-secrets writes a backup without secrets and encryption.") if new else ""
        )
        raise InvalidRequest(
            _(
                "The backup needs a passphrase. Give --passphrase-file FILE, or set {variable} "
                "or the secret {default_secret}.{leave_out}"
            ).format(variable=VARIABLE, default_secret=DEFAULT_SECRET, leave_out=leave_out)
        )
    answer: str = typer.prompt(
        tr(_("Passphrase")), hide_input=True, confirmation_prompt=new, err=True
    )
    return check_passphrase(answer.encode())
