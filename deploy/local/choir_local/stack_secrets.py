"""Secrets of a local installation: reads `secrets.json` and creates what is missing.

Called by `Stack`. Services receive the values they need only on their standard input.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import ChoirError, StartupError
from choir_common.i18n import _
from choir_common.ids import SERVICE_NAMES
from choir_common.secret_file import edit_secret_file
from choir_common.stack_secrets import OLD_NATS_TOKEN, STACK_SECRETS, bus_key
from choir_local.bus_users import create_seed

RANDOM_BYTES = 32
BUS_KEYS = frozenset(bus_key(service) for service in SERVICE_NAMES)
PRIVATE = 0o600


@dataclass(frozen=True, slots=True, repr=False)
class StackSecrets:
    """All secrets by name, and the names of those that were created now."""

    values: Mapping[str, str]
    created: frozenset[str]


def create_secret(name: str) -> str:
    """Return a new value for one of the stack's own secrets: the seed of a key, or a random token."""
    return create_seed() if name in BUS_KEYS else secrets.token_urlsafe(RANDOM_BYTES)


def load_or_create_secrets(path: Path) -> StackSecrets:
    """Read `path` and add the stack's own secrets that are missing; its mode becomes 0600.

    Raises StartupError if it is not a JSON object of strings; errors do not quote its contents.
    """
    try:
        if path.exists():
            os.chmod(path, PRIVATE)  # noqa: PTH101 - also right for a symlink's target
        with edit_secret_file(path) as values:
            fresh = frozenset(name for name in STACK_SECRETS if name not in values)
            values.update({name: create_secret(name) for name in fresh})
            values.pop(OLD_NATS_TOKEN, None)
        return StackSecrets(dict(values), fresh)
    except OSError as error:
        raise StartupError(
            _("The secrets file {path} cannot be read: {error}.").format(path=path, error=error)
        ) from None
    except ChoirError as error:
        raise StartupError(error.message) from None
