"""Placeholders of keys: what an agent holds instead of a key that the egress proxy adds. Pure.

A placeholder is a MAC of the secret's name with the agent's egress key. It has no value outside the agent's
proxy, and stays the same when the secret's value changes.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

from choir_common.egress.credentials import ProxyIdentity, basic_authorization

PREFIX = "choir-placeholder-"
_DIGITS = 40


def key_placeholder(egress_key: str, secret_name: str) -> str:
    """Return the placeholder of a secret for the agent with this egress key."""
    message = f"placeholder {secret_name}".encode()
    digest = hmac.new(bytes.fromhex(egress_key), message, hashlib.sha256).hexdigest()
    return f"{PREFIX}{digest[:_DIGITS]}"


def is_placeholder(key: str | None) -> bool:
    """Return whether a key is a placeholder, which only the agent's proxy can replace."""
    return key is not None and key.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class KeyProxy:
    """The agent's proxy, as its HTTP clients use it for requests with a placeholder.

    They send such a request over plain HTTP to the proxy's socket. The proxy connects to the server, over TLS
    if its address says so, and replaces the placeholder.
    """

    socket: str
    """Path of the proxy's Unix socket."""
    egress_key: str = field(repr=False)

    @property
    def authorization(self) -> str:
        """Return the Proxy-Authorization header of the agent itself."""
        return basic_authorization(self.egress_key, ProxyIdentity())
