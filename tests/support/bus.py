"""Keys of the message bus for tests: one of each service, and one that may use every subject."""

from choir_common.bus.permissions import BusPermissions
from choir_common.ids import SERVICE_NAMES
from choir_common.stack_secrets import bus_key
from choir_local.bus_users import BusUser, create_seed, public_key, service_users

SERVICE_KEYS = {service: create_seed() for service in SERVICE_NAMES}
BUS_KEY = create_seed()
"""Key of a test that takes the part of several services."""
BUS_USERS = (
    *service_users({bus_key(service): key for service, key in SERVICE_KEYS.items()}),
    BusUser(public_key(BUS_KEY), BusPermissions((">",), (">",))),
)
