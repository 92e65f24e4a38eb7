"""Distinguish public addresses from those that agents and pages must not reach.

Called by dialer.py for every address before it is dialled; the operator's exceptions take precedence.
Pure, except for `is_own_address`.
"""

import ipaddress
import socket
from dataclasses import dataclass

from choir_common.errors import StartupError
from choir_common.i18n import _

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Public by number, but a service of the machine's cloud provider.
_METADATA = frozenset({ipaddress.ip_address("168.63.129.16")})
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")
# Not on the public internet, but global according to some version of Python: IETF protocol assignments
# (RFC 6890), 6to4 relays, documentation (RFC 9637), segment routing (RFC 9602) and old site-local addresses.
_NOT_PUBLIC = (
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("192.88.99.0/24"),
    ipaddress.ip_network("3fff::/20"),
    ipaddress.ip_network("5f00::/16"),
    ipaddress.ip_network("fec0::/10"),
)
# First half of the interface identifier of ISATAP addresses.
_ISATAP_IDENTIFIERS = frozenset({0x0000_5EFE, 0x0200_5EFE})


def is_public_address(address: Address) -> bool:
    """Return whether an address, or the IPv4 address it embeds, is on the public internet."""
    inner = _unwrap(address)
    if inner is not None:
        return is_public_address(inner)
    return (
        address.is_global
        and not any(address in network for network in _NOT_PUBLIC)
        and not _is_isatap(address)
        and not address.is_multicast
        and not address.is_reserved
        and address not in _METADATA
    )


def can_be_public(host: str) -> bool:
    """Return whether a name or an address may be on the public internet; nothing is resolved."""
    try:
        return is_public_address(ipaddress.ip_address(host))
    except ValueError:
        return "." in host


def is_own_address(address: Address) -> bool:
    """Return whether the address belongs to this machine, whose services must not be reached.

    Tries to bind to it: the kernel allows that only for its own addresses.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _is_isatap(address: Address) -> bool:
    """Return whether an address tunnels to an IPv4 address of the local site (RFC 5214)."""
    return address.version == 6 and (int(address) >> 32) & 0xFFFFFFFF in _ISATAP_IDENTIFIERS


def _unwrap(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside a mapped, 6to4, NAT64 or compatible IPv6 address, or None."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return low
    return address.ipv4_mapped or address.sixtofour


@dataclass(frozen=True, slots=True)
class AllowlistEntry:
    """A host name or a network, optionally with a port; without one, any port."""

    host: str | None
    network: Network | None
    port: int | None

    def covers(self, host: str, address: Address, port: int) -> bool:
        """Return whether dialling `address` for the name `host` is allowed by this entry."""
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address in self.network
        return self.host == host


@dataclass(frozen=True, slots=True)
class Allowlist:
    """All exceptions of the operator; empty by default."""

    entries: tuple[AllowlistEntry, ...] = ()
    setting: str = ""
    """Name of the setting that contains them, for error messages."""

    def covers(self, host: str, address: Address, port: int) -> bool:
        """Return whether any entry allows this connection."""
        return any(entry.covers(host.lower(), address, port) for entry in self.entries)


def parse_allowlist(text: str, setting: str) -> Allowlist:
    """Parse `host:port`, `address:port`, `[v6]:port` or `CIDR`, separated by commas.

    Raises StartupError naming the setting and its first invalid entry.
    """
    parts = (part.strip() for part in text.split(","))
    return Allowlist(tuple(_entry(part, setting) for part in parts if part), setting)


def _entry(text: str, setting: str) -> AllowlistEntry:
    try:
        return AllowlistEntry(None, ipaddress.ip_network(text, strict=False), None)
    except ValueError:
        host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise StartupError(
            _(
                "{setting}: `{text}` is neither host:port nor a network such as 10.0.0.0/8. Separate "
                "entries by commas."
            ).format(setting=setting, text=text)
        )
    bare = host.strip("[]").lower()
    try:
        return AllowlistEntry(None, ipaddress.ip_network(bare), int(port))
    except ValueError:
        return AllowlistEntry(bare, None, int(port))
