"""Access to secrets.json: mode 0600, atomic replacement, one writer at a time.

Used by control (`secret apply`), choirctl (`secret set`) and the embedded stack. Error messages never
contain a value; for a broken file they give the position only. See docs/design/security.md.
"""

import contextlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from choir_common.errors import Conflict, Forbidden, InvalidRequest, NotFound, TooLarge, Unavailable
from choir_common.file_lock import lock_file
from choir_common.i18n import _

MODE = 0o600
MAX_BYTES = 4_000_000
MAX_VALUE_BYTES = 100_000
LOCK_NAME = ".secrets.lock"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def read_secret_file(path: Path) -> dict[str, str]:
    """Return all secrets by name.

    Raises NotFound if there is no file, Forbidden if others may open it, InvalidRequest if it is not a JSON
    object of strings, Unavailable if it cannot be read.
    """
    return _parse(path, _read(path))


@contextlib.contextmanager
def edit_secret_file(path: Path) -> Iterator[dict[str, str]]:
    """Yield the secrets as a dict; its state at the end of the block replaces the file.

    Nothing is written if the block raises or changes nothing. Raises the errors of `read_secret_file` (a
    missing file counts as empty), and Conflict if another writer keeps the lock for five seconds.
    """
    with _locked(path.parent / LOCK_NAME):
        _remove_partial_files(path)
        try:
            before = read_secret_file(path)
        except NotFound:
            before = {}
        values = dict(before)
        yield values
        if values != before:
            _replace(path, values)


def check_secret_name(name: str) -> None:
    """Raise InvalidRequest for a name that a secret cannot have."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            _(
                "A secret's name starts with a letter or digit and contains only letters, "
                "digits, `.`, `_` and `-`, at most 64 characters."
            )
        )


def check_secret_value(value: str) -> None:
    """Raise InvalidRequest or TooLarge for a value that cannot be stored; the message never has it."""
    if not value.strip():
        raise InvalidRequest(_("The value is empty; nothing was changed."))
    if "\x00" in value:
        raise InvalidRequest(_("The value contains a NUL character; nothing was changed."))
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise TooLarge(
            _("The value is larger than {max_value_bytes} bytes; nothing was changed.").format(
                max_value_bytes=MAX_VALUE_BYTES
            )
        )


def _read(path: Path) -> bytes:
    try:
        # O_NOFOLLOW: a link could point to any file. O_NONBLOCK: opening a pipe would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(
            _(
                "{path} does not exist. `choirctl secret set NAME` creates it; `choirctl init` "
                "creates a complete state directory."
            ).format(path=path)
        ) from None
    except OSError as error:
        raise Unavailable(
            _("Cannot read {path}: {strerror}. Nothing was changed.").format(
                path=path, strerror=error.strerror
            )
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        _check_owner(path, os.fstat(file.fileno()))
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise InvalidRequest(
            _("{path} is larger than {max_bytes} bytes, so it is not a secrets file.").format(
                path=path, max_bytes=MAX_BYTES
            )
        )
    return text


def _check_owner(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Forbidden(
            _("{path} is not a regular file. Replace it with a regular file.").format(path=path)
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise Forbidden(
            _(
                "{path} has mode {mode:04o}: others on this machine may open it. Run `chmod 600 "
                "{path}`, and replace the secrets if somebody else may have read them."
            ).format(path=path, mode=mode)
        )
    if os.geteuid() not in (0, status.st_uid):
        raise Forbidden(
            _("{path} belongs to user {st_uid}. Run this as that user.").format(
                path=path, st_uid=status.st_uid
            )
        )


def _parse(path: Path, text: bytes) -> dict[str, str]:
    try:
        values: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            _(
                "{path}, line {lineno}, column {colno}: not JSON ({msg}). Correct it; nothing "
                "was changed."
            ).format(path=path, lineno=error.lineno, colno=error.colno, msg=error.msg)
        ) from None
    except (UnicodeDecodeError, RecursionError):
        raise InvalidRequest(
            _("{path} is not JSON in UTF-8. Correct it.").format(path=path)
        ) from None
    if not isinstance(values, dict):
        raise InvalidRequest(
            _("{path} must contain one JSON object of names and strings. Correct it.").format(
                path=path
            )
        )
    secrets: dict[str, str] = {}
    for name, value in values.items():
        if not isinstance(value, str) or not value:
            raise InvalidRequest(
                _(
                    "{path}, {name!r}: a secret must be a non-empty string. Correct it; nothing was "
                    "changed."
                ).format(path=path, name=name[:64])
            )
        secrets[name] = value
    return secrets


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # A separate lock file, because the secrets file itself is replaced by rename.
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
    except OSError as error:
        raise Unavailable(
            _(
                "Cannot lock the secrets ({path}): {strerror}. Check that the state directory is "
                "correct; `choirctl init` creates it."
            ).format(path=path, strerror=error.strerror)
        ) from None
    try:
        try:
            lock_file(descriptor)
        except TimeoutError:
            raise Conflict(
                _("Another process is changing the secrets ({path} is locked). Try again.").format(
                    path=path
                )
            ) from None
        yield
    finally:
        os.close(descriptor)


def _remove_partial_files(path: Path) -> None:
    """Remove temporary files of a writer that was killed: they contain secret values."""
    for leftover in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 16}"):
        leftover.unlink(missing_ok=True)


def _replace(path: Path, values: Mapping[str, str]) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _keep_owner(path, file.fileno())
            file.write(json.dumps(dict(sorted(values.items())), indent=2, ensure_ascii=False))
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise Unavailable(
            _("Cannot write {path}: {strerror}.").format(path=path, strerror=error.strerror)
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def _keep_owner(path: Path, descriptor: int) -> None:
    """Preserve the file's owner (the directory's for a new file), since root may change it for others."""
    if os.geteuid() == 0:
        owner = (path if path.exists() else path.parent).stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
