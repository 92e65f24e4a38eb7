"""Distinguish public addresses from those that pages must not reach. Pure, except for `is_own_address`.

Called by dialer.py for every address before it is dialled.
"""

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Public by number, but a service of the machine's cloud provider.
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")


def is_public_address(address: Address) -> bool:
    """Return whether an address, or the IPv4 address it embeds, is on the public internet."""
    inner = _unwrap(address)
    if inner is not None:
        return is_public_address(inner)
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False  # fec0::/10: deprecated, but global according to Python
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and address not in _METADATA
    )


def is_own_address(address: Address) -> bool:
    """Return whether the address belongs to this machine, whose services pages must not reach.

    Tries to bind to it: the kernel allows that only for its own addresses.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _unwrap(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside a mapped, 6to4, NAT64 or compatible IPv6 address, or None."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return low
    return address.ipv4_mapped or address.sixtofour
