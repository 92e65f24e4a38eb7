"""Read-only access to secrets.json for clients: the operator token, and what choirctl checks."""

import contextlib
import json
import re
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _

_TEXT = r'"(?:[^"\\\n]|\\.)*"'
_PAIR = re.compile(rf"({_TEXT})\s*:\s*({_TEXT})")


def read_secrets(path: Path) -> dict[str, str]:
    """Return the secrets by name; empty if there is no file.

    Raises StartupError if it is not a JSON object of strings; the message never contains a value.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        raise StartupError(
            _("{path}, line {lineno}, column {colno}: not JSON ({error}). Correct it.").format(
                path=path, lineno=error.lineno, colno=error.colno, error=error.msg
            )
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(
            _("Cannot read the secrets in {path}: {error}.").format(path=path, error=error)
        ) from None
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise StartupError(
            _("{path} must contain one JSON object of names and strings. Correct it.").format(
                path=path
            )
        )
    return values


def salvage_secrets(path: Path) -> dict[str, str]:
    """Return the secrets that can be recognised in a file with syntax errors; empty if it is unreadable.

    For reading only: a running Choir keeps the values it has read, and its operator must still be able to
    reach it while the file is being edited. The result must never be written back.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    secrets = {}
    for name, value in _PAIR.findall(text):
        with contextlib.suppress(ValueError):
            secrets[str(json.loads(name))] = str(json.loads(value))
    return secrets
