"""Turn a name into the addresses that may be dialled for it, and dial exactly one of those.

Called by proxy.py for each connection. The name is resolved here, once: what was judged is what is
dialled, so a name that changes its answer (DNS rebinding) gains nothing.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from choir_browser.guard.addresses import Address, is_own, is_public
from choir_browser.guard.allowlist import Allowlist
from choir_common.errors import BadInput, Forbidden, Unavailable

DIAL_TIMEOUT_S = 10.0
RESOLVE_TIMEOUT_S = 5.0
# A name with many addresses must not hold a page up while each times out.
MAX_DIALS = 3

Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask_system(host: str, port: int) -> Sequence[Address]:
    """Resolve through the system, as any program here would.

    Raises Unavailable when the name has no address.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise Unavailable(f"The name {host} could not be resolved.") from error
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(text) for text in texts]


@dataclass(frozen=True, slots=True)
class Dialler:
    """Opens connections to permitted addresses, and to no others."""

    allow: Allowlist
    resolver: Resolver = ask_system

    async def permitted(self, host: str, port: int) -> Sequence[Address]:
        """Give the addresses of `host` that may be dialled.

        Raises Forbidden when it has none, Unavailable when it does not resolve.
        """
        if not host or not 0 < port < 65536:
            raise BadInput(f"{host}:{port} is no place on a network.")
        found = await self.resolver(host, port)
        good = [address for address in found if self._may(host, address, port)]
        if not good:
            raise Forbidden(
                f"{host}:{port} is a private, local or reserved address, which pages may not "
                "reach. The operator can except it with CHOIR_BROWSER_ALLOW."
            )
        return good

    async def dial(self, host: str, port: int) -> Streams:
        """Connect to a permitted address of `host`.

        Raises Forbidden as `permitted` does, Unavailable when none answers.
        """
        for address in (await self.permitted(host, port))[:MAX_DIALS]:
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    return await asyncio.open_connection(str(address), port)
            except (OSError, TimeoutError):
                continue
        raise Unavailable(f"{host}:{port} does not answer.")

    def _may(self, host: str, address: Address, port: int) -> bool:
        if self.allow.covers(host, address, port):
            return True
        return is_public(address) and not is_own(address)
