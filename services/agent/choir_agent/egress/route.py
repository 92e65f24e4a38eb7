"""Address and credentials of the egress proxy, for the agent and for its tool calls. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from choir_common.egress.credentials import ProxyIdentity, proxy_url

LOOPBACK = "127.0.0.1"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
NOT_PROXIED = "localhost,127.0.0.1,::1"
"""Servers that a command starts itself; nothing else is on the agent's loopback."""


@dataclass(frozen=True, slots=True)
class EgressAddress:
    """How to reach the egress proxy."""

    socket: str
    """Path of the proxy's Unix socket."""
    key: str = field(repr=False)
    relay_port: int
    """Port on loopback that leads to the socket, for programs that know proxies by host and port."""

    @property
    def own_url(self) -> str:
        """Return the proxy's URL with the agent's own credentials."""
        return proxy_url(self.key, ProxyIdentity(), LOOPBACK, self.relay_port)

    def environment(self, tool: str, call_id: str) -> Mapping[str, str]:
        """Return the variables that lead a program of a tool call to the proxy."""
        url = proxy_url(self.key, ProxyIdentity(tool, call_id), LOOPBACK, self.relay_port)
        variables = dict.fromkeys(PROXY_VARIABLES, url) | {"NO_PROXY": NOT_PROXIED}
        # programs differ in which case they read
        return variables | {name.lower(): value for name, value in variables.items()}
