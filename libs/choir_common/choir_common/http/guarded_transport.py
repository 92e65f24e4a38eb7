"""HTTP transport for addresses that strangers name, such as those in the metadata of a login.

Each connection goes to an address that was checked: public ones, and the few that the operator allows. So a
name that changes its answer (DNS rebinding) gains nothing. Plain HTTP reaches allowed addresses only.
"""

import ipaddress
from collections.abc import Iterable

import httpcore2
import httpx2

from choir_common.egress.addresses import Allowlist
from choir_common.egress.dialer import Dialer
from choir_common.errors import ChoirError


class _GuardedBackend(httpcore2.AnyIOBackend):
    """Dials checked addresses; TLS verifies the name all the same."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await self._dialer.permitted_addresses(host, port)
        except ChoirError as error:
            raise httpcore2.ConnectError(error.message) from error
        return await super().connect_tcp(
            str(addresses[0]), port, timeout, local_address, socket_options
        )


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport that reaches what a dialer permits."""

    def __init__(self, dialer: Dialer) -> None:
        tls = httpx2.create_ssl_context()
        super().__init__(verify=tls, trust_env=False)
        self._dialer = dialer
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls, network_backend=_GuardedBackend(dialer)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; raises ConnectError for an address that may not be reached."""
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        if url.scheme != "https" and not _is_named(self._dialer.allow, url.host.lower(), port):
            raise httpx2.ConnectError(f"{url.scheme}://{url.host} is not encrypted.")
        return await super().handle_async_request(request)


def _is_named(allow: Allowlist, host: str, port: int) -> bool:
    """Return whether the operator allows this host by its name, or by its address."""
    try:
        return allow.covers(host, ipaddress.ip_address(host), port)
    except ValueError:
        return any(entry.host == host and entry.port in (None, port) for entry in allow.entries)
