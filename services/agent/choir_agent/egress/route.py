"""Address and credentials of the egress proxy, for the agent and for its tool calls. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from choir_common.egress.credentials import ProxyIdentity, proxy_url
from choir_common.egress.key_placeholders import KeyProxy

LOOPBACK = "127.0.0.1"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Hosts that programs reach without the proxy: servers that a command starts itself."""


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

    @property
    def key_proxy(self) -> KeyProxy:
        """Return the proxy as the agent's HTTP clients use it for requests with a placeholder."""
        return KeyProxy(self.socket, self.key)

    def environment(
        self, tool: str, call_id: str, hosts: tuple[str, ...] = (), *, is_limited: bool = False
    ) -> Mapping[str, str]:
        """Return the variables that lead a program of a tool call to the proxy.

        It may reach `hosts` besides those that are known to the proxy; if it is limited, no others.
        """
        user = ProxyIdentity(tool, call_id, hosts, is_limited)
        url = proxy_url(self.key, user, LOOPBACK, self.relay_port)
        return {**_both_cases(dict.fromkeys(PROXY_VARIABLES, url)), **unproxied_hosts()}


def unproxied_hosts(except_for: Iterable[str] = ()) -> Mapping[str, str]:
    """Return the variables that name the hosts to be reached without the proxy.

    A server in `except_for` (`host` or `host:port`) that runs on the machine is reached through the proxy
    under the name given there, because an agent's own loopback interface does not lead to it.
    """
    proxied = {host.partition(":")[0].lower() for host in except_for}
    names = [host for host in LOOPBACK_HOSTS if host not in proxied]
    return _both_cases({"NO_PROXY": ",".join(names)})


def _both_cases(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables in both cases, because programs differ in which they read."""
    return {**variables, **{name.lower(): value for name, value in variables.items()}}
