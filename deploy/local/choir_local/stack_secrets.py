"""Secrets of a local installation: reads `secrets.json` and creates what is missing.

Called by `Stack`. Services receive the values they need only on their standard input.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import ChoirError, StartupError
from choir_common.secret_file import edit_secret_file

POSTGRES_ADMIN = "postgres-admin"
NATS_TOKEN = "nats-token"  # noqa: S105 - a secret's name
OPERATOR_TOKEN = "operator-token"  # noqa: S105 - a secret's name
STACK_SECRETS = (POSTGRES_ADMIN, NATS_TOKEN, OPERATOR_TOKEN)
RANDOM_BYTES = 32
PRIVATE = 0o600


@dataclass(frozen=True, slots=True, repr=False)
class StackSecrets:
    """All secrets by name, and the names of those that were created now."""

    values: Mapping[str, str]
    created: frozenset[str]


def load_or_create_secrets(path: Path) -> StackSecrets:
    """Read `path` and add the stack's own secrets that are missing; its mode becomes 0600.

    Raises StartupError if it is not a JSON object of strings; errors do not quote its contents.
    """
    try:
        if path.exists():
            os.chmod(path, PRIVATE)  # noqa: PTH101 - also right for a symlink's target
        with edit_secret_file(path) as values:
            fresh = frozenset(name for name in STACK_SECRETS if name not in values)
            values.update({name: secrets.token_urlsafe(RANDOM_BYTES) for name in fresh})
        return StackSecrets(dict(values), fresh)
    except OSError as error:
        raise StartupError(f"The secrets file {path} cannot be read: {error}.") from None
    except ChoirError as error:
        raise StartupError(error.message) from None
