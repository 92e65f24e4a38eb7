"""Permissions of each service at the NATS server, derived from `subjects.ROUTES`."""

from dataclasses import dataclass

from choir_common.bus.subjects import ROUTES
from choir_common.ids import ServiceName

INBOX = "_INBOX_"


@dataclass(frozen=True, slots=True)
class BusPermissions:
    """Subjects that a user may publish and subscribe to, with NATS' wildcards; all others are denied.

    Besides, a user may answer each request that it received, once.
    """

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox_prefix(name: str) -> str:
    """Return the prefix of the subjects on which the client `name` receives responses."""
    return f"{INBOX}{name}"


def service_permissions(service: ServiceName) -> BusPermissions:
    """Return the permissions of a service."""
    micro = f"choir-{service}"
    return BusPermissions(
        publish=tuple(route.subject for route in ROUTES if service in route.publishers),
        subscribe=(
            *(route.subject for route in ROUTES if service in route.subscribers),
            f"{inbox_prefix(service)}.>",
            # nats.micro subscribes to these for discovery. No service may publish to them.
            *("$SRV.*", f"$SRV.*.{micro}", f"$SRV.*.{micro}.*"),
        ),
    )
