"""Tell a public address from one that must not be reached from a page. Pure, but for `is_own`.

Asked by resolve.py for every address before it is dialled.
"""

import ipaddress
import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Public by number, but they answer for the machine or its cloud, not for the internet.
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")


def is_public(address: Address) -> bool:
    """Tell whether an address lies on the open internet, whatever it is wrapped in."""
    inner = _unwrap(address)
    if inner is not None:
        return is_public(inner)
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return False  # fec0::/10: deprecated, and "global" in Python's eyes
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and address not in _METADATA
    )


def is_own(address: Address) -> bool:
    """Tell whether this machine itself holds the address: its services are not for pages.

    Asks the kernel by binding, which succeeds for own addresses alone.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _unwrap(address: Address) -> ipaddress.IPv4Address | None:
    """Give the IPv4 address inside a mapped, 6to4, NAT64 or compatible IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return low
    return address.ipv4_mapped or address.sixtofour
