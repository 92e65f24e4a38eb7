"""Storing a secret's value in secrets.json for the operator API; a value is never read back."""

import asyncio
from pathlib import Path

import structlog

from choir_common.errors import Forbidden
from choir_common.i18n import _
from choir_common.redactor import Redactor
from choir_common.secret_file import check_secret_name, check_secret_value, edit_secret_file
from choir_common.stack_secrets import RESERVED_SECRETS

log = structlog.get_logger("choir.secrets")


class SecretWriter:
    """Writer of secrets.json. What it stores is used after the next `secret apply`."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self._path = path
        self._redactor = redactor

    async def store(self, name: str, value: str) -> bool:
        """Store a value; return whether it replaced one.

        Raises Forbidden for a secret of Choir itself, InvalidRequest for a name or a value that cannot
        be stored, and the errors of `edit_secret_file`. No message contains the value.
        """
        check_secret_name(name)
        if name in RESERVED_SECRETS:
            raise Forbidden(
                _("{name} is Choir's own secret: choose another name.").format(name=name)
            )
        check_secret_value(value)
        # before it is anywhere else
        self._redactor.add_secrets([value])
        replaced = await asyncio.to_thread(_store, self._path, name, value)
        log.info("secret stored", name=name, replaced=replaced)
        return replaced


def _store(path: Path, name: str, value: str) -> bool:
    with edit_secret_file(path) as values:
        replaced = name in values
        values[name] = value
    return replaced
