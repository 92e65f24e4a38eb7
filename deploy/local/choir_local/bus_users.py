"""Users of the NATS server: their keys, and the part of its configuration that names them.

Used by the embedded stack, by `setup` of the containers, and by tests. The server gets public keys only;
each service gets the seed of its own key.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import nkeys  # type: ignore[import-untyped]

from choir_common.bus.permissions import BusPermissions, service_permissions
from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.ids import SERVICE_NAMES
from choir_common.stack_secrets import bus_key

SEED_BYTES = 32
# Longer than the longest request (BULK_TIMEOUT_S, and two minutes of a browser action).
RESPONSE_EXPIRES = "10m"


@dataclass(frozen=True, slots=True)
class BusUser:
    """A user of the NATS server."""

    public_key: str
    permissions: BusPermissions


def create_seed() -> str:
    """Return the seed of a new key."""
    seed: bytes = nkeys.encode_seed(secrets.token_bytes(SEED_BYTES), nkeys.PREFIX_BYTE_USER)
    return seed.decode()


def public_key(seed: str) -> str:
    """Return the public key of a seed. Raises nkeys.NkeysError if it is invalid."""
    key: bytes = nkeys.from_seed(bytearray(seed.encode())).public_key
    return key.decode()


def service_users(values: Mapping[str, str]) -> tuple[BusUser, ...]:
    """Return the user of each service, whose seeds are among the secrets in `values`.

    Raises StartupError that names an invalid seed.
    """
    users = []
    for service in SERVICE_NAMES:
        try:
            key = public_key(values[bus_key(service)])
        except (nkeys.NkeysError, ValueError):
            raise StartupError(
                _(
                    "The secret {bus_key} is not the seed of an nkey. Remove it from secrets.json; "
                    "the next start creates a new one."
                ).format(bus_key=bus_key(service))
            ) from None
        users.append(BusUser(key, service_permissions(service)))
    return tuple(users)


def render_authorization(users: Sequence[BusUser]) -> str:
    """Return the line `authorization` of the server's configuration."""
    return "authorization: " + json.dumps({"users": [_render(user) for user in users]})


def _render(user: BusUser) -> dict[str, object]:
    allowed = user.permissions
    return {
        "nkey": user.public_key,
        "permissions": {
            "publish": {"allow": allowed.publish},
            "subscribe": {"allow": allowed.subscribe},
            "allow_responses": {"max": 1, "expires": RESPONSE_EXPIRES},
        },
    }
