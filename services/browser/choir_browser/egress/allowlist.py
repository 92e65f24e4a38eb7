"""The operator's exceptions to the address rules, parsed from one setting.

Created by app.py from CHOIR_BROWSER_ALLOW; dialer.py checks it before it refuses an address.
"""

import ipaddress
from dataclasses import dataclass

from choir_browser.egress.addresses import Address
from choir_common.errors import StartupError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


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

    def covers(self, host: str, address: Address, port: int) -> bool:
        """Return whether any entry allows this connection."""
        return any(entry.covers(host.lower(), address, port) for entry in self.entries)


def parse_allowlist(text: str) -> Allowlist:
    """Parse `host:port`, `address:port`, `[v6]:port` or `CIDR`, separated by commas.

    Raises StartupError naming the first invalid entry.
    """
    return Allowlist(tuple(_entry(part.strip()) for part in text.split(",") if part.strip()))


def _entry(text: str) -> AllowlistEntry:
    try:
        return AllowlistEntry(None, ipaddress.ip_network(text, strict=False), None)
    except ValueError:
        host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise StartupError(
            f"CHOIR_BROWSER_ALLOW: `{text}` is neither host:port nor a network such as "
            "10.0.0.0/8. Separate entries by commas."
        )
    bare = host.strip("[]").lower()
    try:
        return AllowlistEntry(None, ipaddress.ip_network(bare), int(port))
    except ValueError:
        return AllowlistEntry(bare, None, int(port))
