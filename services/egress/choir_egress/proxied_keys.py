"""Replacement of placeholders by keys in the head of one request. Pure.

A key reaches only its own servers, in one header field. A request that names its server or its key in more
than one way is refused, because the server could understand it differently.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field

from choir_common.egress.credentials import ProxyIdentity
from choir_common.egress.http_head import ProxyTarget
from choir_common.egress.key_placeholders import PREFIX
from choir_common.errors import Forbidden, InvalidRequest
from choir_common.wire.egress import AgentEgress, ProxiedKey

CREDENTIAL_FIELDS = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "xi-api-key", "x-subscription-token"}
)
_BASIC = "basic "

Fields = Sequence[tuple[str, str]]
"""Header fields with names in lower case."""


@dataclass(frozen=True, slots=True)
class KeyedServer:
    """A server that gets keys from the proxy, and the keys that this user may use there."""

    scheme: str
    host: str
    port: int
    keys: tuple[ProxiedKey, ...] = field(repr=False)

    @property
    def full_authority(self) -> str:
        """Return host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """Return the Host header for this server, without the scheme's own port."""
        default = ":443" if self.scheme == "https" else ":80"
        return self.full_authority.removesuffix(default)


@dataclass(frozen=True, slots=True)
class KeyedHead:
    """Header fields with the key, and the texts that a response must not repeat."""

    fields: tuple[tuple[str, str], ...] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


def find_server(agent: AgentEgress, user: ProxyIdentity, target: ProxyTarget) -> KeyedServer | None:
    """Return the target as a server of keys, or None if this user has no key for it."""
    host = target.host.lower()
    authority = f"[{host}]:{target.port}" if ":" in host else f"{host}:{target.port}"
    keys = [key for key in agent.proxied_keys if not user.tool or user.tool in key.tools]
    for scheme in ("https", "http"):
        matching = tuple(key for key in keys if f"{scheme}://{authority}" in key.servers)
        if matching:
            return KeyedServer(scheme, host, target.port, matching)
    return None


def has_placeholder(fields: Fields) -> bool:
    """Return whether a header field contains a placeholder, also in basic authentication."""
    return any(PREFIX in _readable(value) for _, value in fields)


def replace_placeholder(fields: Fields, server: KeyedServer) -> KeyedHead:
    """Replace the placeholder of one of the server's keys; other credentials are removed.

    A request without a placeholder is returned with its own credentials. Raises Forbidden for a placeholder
    of another key or in another field, and InvalidRequest for a repeated field.
    """
    secrets = [key.value for key in server.keys]
    if not has_placeholder(fields):
        return KeyedHead(tuple(fields), tuple(secrets))
    result: list[tuple[str, str]] = []
    for name, value in fields:
        if name not in CREDENTIAL_FIELDS:
            if PREFIX in _readable(value):
                raise Forbidden(f"The header {name} cannot contain the placeholder of a key.")
            result.append((name, value))
        elif PREFIX in _readable(value):
            keyed, plain = _replace(value, server)
            result.append((name, keyed))
            secrets += [keyed, plain]
    names = [name for name, _ in fields if name in CREDENTIAL_FIELDS]
    if len(set(names)) != len(names):
        raise InvalidRequest("The request has a repeated header with credentials.")
    return KeyedHead(tuple(result), tuple(secrets))


def _readable(value: str) -> str:
    """Return a header's value, with the credentials of basic authentication decoded."""
    if not value.lower().startswith(_BASIC):
        return value
    try:
        return base64.b64decode(value[len(_BASIC) :].strip(), validate=True).decode("latin-1")
    except binascii.Error:
        return value


def _replace(value: str, server: KeyedServer) -> tuple[str, str]:
    """Return the header's value with the key, as it is sent and without encoding; raises Forbidden."""
    readable = _readable(value)
    key = next((key for key in server.keys if key.placeholder in readable), None)
    if key is None:
        raise Forbidden(f"The placeholder is not one of a key for {server.authority}.")
    plain = readable.replace(key.placeholder, key.value)
    if readable == value:
        return plain, plain
    return f"Basic {base64.b64encode(plain.encode('latin-1')).decode()}", plain
