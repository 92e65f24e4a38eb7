"""Load `secrets.json`, and make the secrets a local installation needs at its first start.

Called by `stack`; the values go to the services that need them over their standard input only.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError
from choir_local.private_file import write_private

POSTGRES_ADMIN = "postgres-admin"
NATS_TOKEN = "nats-token"  # noqa: S105 - a secret's name
OPERATOR_TOKEN = "operator-token"  # noqa: S105 - a secret's name
OWN = (POSTGRES_ADMIN, NATS_TOKEN, OPERATOR_TOKEN)
RANDOM_BYTES = 32


@dataclass(frozen=True, slots=True, repr=False)
class StackSecrets:
    """All secrets by name, and which of them were made just now."""

    values: Mapping[str, str]
    fresh: frozenset[str]


def load_or_make_secrets(path: Path) -> StackSecrets:
    """Read `path`, adding what is missing of our own; its mode becomes 0600.

    Raises StartupError if it is no JSON object of strings; its contents are never quoted.
    """
    values = _read(path)
    fresh = frozenset(name for name in OWN if name not in values)
    if fresh:
        made = {name: secrets.token_urlsafe(RANDOM_BYTES) for name in OWN if name in fresh}
        values = {**values, **made}
        write_private(path, json.dumps(values, indent=2) + "\n", durable=True)
    return StackSecrets(values, fresh)


def _read(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        os.chmod(path, 0o600)  # noqa: PTH101 - also right for a symlink's target
        values: object = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise StartupError(
            f"The secrets file {path} is no JSON: {error.msg} in line {error.lineno}, column "
            f"{error.colno}. Correct it; nothing was changed."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StartupError(f"The secrets file {path} cannot be read: {error}.") from None
    if not isinstance(values, dict):
        raise StartupError(
            f"The secrets file {path} must hold one JSON object of names and values."
        )
    for name, value in values.items():
        if not isinstance(value, str) or not value:
            raise StartupError(
                f"The secret {name!r} in {path} must be a string that is not empty. Correct it; "
                "nothing was changed."
            )
    return {str(name): str(value) for name, value in values.items()}
