"""URL of a TCP server as its clients use it: scheme, host, port.

Used by control, which opens the server, and by the embedded stack, which prints its address.
"""

import ipaddress
from typing import Literal

TlsMode = Literal["auto", "on", "off"]
# Wildcard addresses: a client cannot connect to them.
WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 compared, not bound


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
