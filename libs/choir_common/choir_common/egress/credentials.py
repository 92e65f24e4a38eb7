"""User names and passwords of agents and tool calls at the egress proxy. Pure.

A password is a MAC of its user name, so that the proxy needs one key per agent and no state per call. A tool
call learns its own password only, and cannot act as another tool or as the agent itself.
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass

AGENT_USER = "agent"
SEPARATOR = "~"
HOST_SEPARATOR = ","
LIMIT = "="
MAX_CALL_ID = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class ProxyIdentity:
    """The agent itself, or one of its tool calls."""

    tool: str = ""
    """Empty for the agent itself."""
    call_id: str = ""
    hosts: tuple[str, ...] = ()
    """Patterns of hosts that the agent lets this call reach although they are not among its known hosts."""
    is_limited: bool = False
    """Whether the call may reach no other hosts."""

    @property
    def name(self) -> str:
        """Return the user name, which needs no encoding in a URL."""
        if not self.tool:
            return AGENT_USER
        call_id = plain_call_id(self.call_id)
        limit = LIMIT if self.is_limited else ""
        listed = f"{limit}{HOST_SEPARATOR.join(self.hosts)}"
        hosts = f"{SEPARATOR}{listed}" if listed else ""
        return f"{self.tool}{SEPARATOR}{call_id}{hosts}"


def plain_call_id(call_id: str) -> str:
    """Return a call id as it is part of a user name."""
    return _UNSAFE.sub("-", call_id)[:MAX_CALL_ID]


def proxy_password(key: str, user: ProxyIdentity) -> str:
    """Return the password of a user of the agent with this key."""
    return hmac.new(bytes.fromhex(key), user.name.encode(), hashlib.sha256).hexdigest()


def proxy_url(key: str, user: ProxyIdentity, host: str, port: int) -> str:
    """Return the URL of the proxy for HTTP clients, with the user's credentials."""
    return f"http://{user.name}:{proxy_password(key, user)}@{host}:{port}"


def basic_authorization(key: str, user: ProxyIdentity) -> str:
    """Return the value of a Proxy-Authorization header."""
    credentials = f"{user.name}:{proxy_password(key, user)}".encode()
    return f"Basic {base64.b64encode(credentials).decode()}"


def authenticate(key: str, header: str) -> ProxyIdentity | None:
    """Return the user of a Proxy-Authorization header, or None if it is missing or wrong."""
    kind, _, credentials = header.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:
        return None
    tool, _, call = name.partition(SEPARATOR)
    call_id, _, listed = call.partition(SEPARATOR)
    names, is_limited = listed.removeprefix(LIMIT), listed.startswith(LIMIT)
    hosts = tuple(names.split(HOST_SEPARATOR)) if names else ()
    call_user = ProxyIdentity(tool, call_id, hosts, is_limited)
    user = ProxyIdentity() if name == AGENT_USER else call_user
    # compare_digest takes the same time for any wrong password.
    is_right = hmac.compare_digest(proxy_password(key, user).encode(), password.encode())
    return user if is_right and user.name == name else None
