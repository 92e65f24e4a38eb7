"""The file `audit-keys.json`: the keys that sign the log, oldest first, with mode 0600.

It is beside the database and not in it: database access alone signs nothing. Read by control, and by
`choirctl db backup --with-secrets` and `restore`.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import NotFound
from choir_common.eventlog.signature import KEY_BYTES, AuditKey
from choir_common.secret_file import edit_secret_file, read_secret_file

KEY_PREFIX = "key-"
UNPUBLISHED = "unpublished"
"""Entry that is there while an anchor over all logs is still to be made with the newest key."""


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """The keys of the file, oldest first."""

    keys: tuple[AuditKey, ...]
    is_unpublished: bool
    """The database has logs that no key of this file signed; an anchor over all logs is to be made."""


def load_keys(path: Path) -> StoredKeys:
    """Return the keys; a file that does not exist is made with a new key.

    Raises ValueError or the errors of `read_secret_file` for a damaged file.
    """
    try:
        return _parse(read_secret_file(path))
    except NotFound:
        with edit_secret_file(path) as values:
            _append(values, secrets.token_hex(KEY_BYTES))
            values[UNPUBLISHED] = "yes"
            return _parse(values)


def add_key(path: Path) -> StoredKeys:
    """Add a new key, which signs from now on."""
    with edit_secret_file(path) as values:
        _append(values, secrets.token_hex(KEY_BYTES))
        return _parse(values)


def mark_published(path: Path) -> None:
    """Record that the anchor over all logs is stored."""
    with edit_secret_file(path) as values:
        values.pop(UNPUBLISHED, None)


def restore_keys(path: Path, backup: Path) -> None:
    """Add the keys of a backup before those of this home; without them, have all logs anchored again."""
    with edit_secret_file(path) as values:
        own = _key_texts(values)
        restored = _key_texts(read_secret_file(backup)) if backup.exists() else []
        values.clear()
        for text in dict.fromkeys((*restored, *own)):
            _append(values, text)
        if own and not restored:
            values[UNPUBLISHED] = "yes"


def _append(values: dict[str, str], text: str) -> None:
    """Add a key under a name that sorts after the others."""
    values[f"{KEY_PREFIX}{len(_key_texts(values)) + 1:04d}"] = text


def _key_texts(values: dict[str, str]) -> list[str]:
    return [text for name, text in sorted(values.items()) if name != UNPUBLISHED]


def _parse(values: dict[str, str]) -> StoredKeys:
    keys = tuple(AuditKey(bytes.fromhex(text)) for text in _key_texts(values))
    if not keys or any(len(key.secret) != KEY_BYTES for key in keys):
        raise ValueError(f"each key has {KEY_BYTES} bytes in hexadecimal, and there must be one")
    return StoredKeys(keys, UNPUBLISHED in values)
