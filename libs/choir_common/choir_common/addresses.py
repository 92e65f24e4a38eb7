"""Addresses: patterns in settings with a message for each, and the URL of a TCP server for its clients.

The URL is used by control, which opens the server, and by the embedded stack, which prints its address.
"""

import ipaddress
from typing import Literal

HOST_AND_PORT_PATTERN = r"^\S+:\d{1,5}$"
WEB_ADDRESS_PATTERN = r"^https?://\S+$"
TlsMode = Literal["auto", "on", "off"]
# Wildcard addresses: a client cannot connect to them.
WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 compared, not bound
ADDRESS_RULES = {
    HOST_AND_PORT_PATTERN: "must be host and port, such as 127.0.0.1:9512",
    WEB_ADDRESS_PATTERN: "must start with http:// or https:// and contain no spaces",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def uses_tls(mode: TlsMode, certificate: str, host: str) -> bool:
    """Return whether the server uses TLS: it is configured, or other machines can reach the host."""
    if mode == "auto":
        return bool(certificate) or not is_loopback(host)
    return mode == "on"


def client_url(host: str, port: int, *, tls: bool) -> str:
    """Return the URL by which a client on this machine reaches the server."""
    name = "127.0.0.1" if host in WILDCARD_HOSTS else f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{name}:{port}"
