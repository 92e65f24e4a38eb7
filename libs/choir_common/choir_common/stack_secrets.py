"""Names of the secrets that Choir creates for itself; no agent ever receives one of them."""

from choir_common.ids import SERVICE_NAMES, ServiceName

POSTGRES_ADMIN = "postgres-admin"
OPERATOR_TOKEN = "operator-token"  # noqa: S105 - a secret's name
GATEWAY_TOKEN = "control-gateway-token"  # noqa: S105 - a secret's name
OLD_NATS_TOKEN = "nats-token"  # noqa: S105 - a secret's name
"""The token that all services shared before each had a key; it is removed at the next start."""


def bus_key(service: ServiceName) -> str:
    """Return the name of a service's key to the message bus."""
    return f"nats-key-{service}"


STACK_SECRETS = (
    POSTGRES_ADMIN,
    OPERATOR_TOKEN,
    GATEWAY_TOKEN,
    *(bus_key(service) for service in SERVICE_NAMES),
)
RESERVED_SECRETS = frozenset({*STACK_SECRETS, OLD_NATS_TOKEN})
"""Names that people cannot use for their own secrets."""
