"""Resolve a name, check its addresses, and dial exactly the addresses that were checked.

The name is resolved here, once: the checked address is the
dialled address, so a name that changes its answer (DNS rebinding) gains nothing.
"""

import asyncio
import functools
import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from choir_common.egress.addresses import (
    Address,
    Allowlist,
    is_own_address,
    is_public_address,
)
from choir_common.errors import Forbidden, InvalidRequest, Unavailable

DIAL_TIMEOUT_S = 10.0
RESOLVE_TIMEOUT_S = 5.0
# Look-ups cannot be cancelled, so many may hang at once; an idle thread costs almost nothing.
MAX_LOOKUPS = 32
# A name with many addresses must not delay a client while each times out.
MAX_DIALS = 3

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Resolver(Protocol):
    """Resolver of host names."""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a name; raises Unavailable if it has none."""
        ...


class SystemResolver:
    """Resolves with getaddrinfo, in its own thread pool.

    In the pool that the whole process shares, an unresponsive name server would block every agent.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, thread_name_prefix="resolve")

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a name; raises Unavailable if it has none."""
        look_up = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                entries = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise Unavailable(f"The name {host} could not be resolved.") from error
        texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries)
        return [ipaddress.ip_address(text) for text in texts]


@dataclass(frozen=True, slots=True)
class Dialer:
    """Opens connections to permitted addresses only."""

    allow: Allowlist
    resolver: Resolver = field(default_factory=SystemResolver)

    async def permitted_addresses(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of `host` that may be dialled.

        Raises InvalidRequest for an invalid host or port, Forbidden if no address is permitted, and
        Unavailable if the name does not resolve.
        """
        if not host or not 0 < port < 65536:
            raise InvalidRequest(f"{host}:{port} is not a valid network address.")
        candidates = await self.resolver.resolve(host, port)
        addresses = [address for address in candidates if self._is_permitted(host, address, port)]
        if not addresses:
            advice = f" The operator can allow it with {self.allow.setting}."
            raise Forbidden(
                f"{host}:{port} is a private, local or reserved address, which may not be reached."
                + (advice if self.allow.setting else "")
            )
        return addresses

    async def dial(self, host: str, port: int) -> Streams:
        """Connect to a permitted address of `host`.

        Raises as `permitted_addresses` does, and Unavailable if no address answers.
        """
        for address in (await self.permitted_addresses(host, port))[:MAX_DIALS]:
            try:
                async with asyncio.timeout(DIAL_TIMEOUT_S):
                    return await asyncio.open_connection(str(address), port)
            except (OSError, TimeoutError):
                continue
        raise Unavailable(f"{host}:{port} does not answer.")

    def _is_permitted(self, host: str, address: Address, port: int) -> bool:
        if self.allow.covers(host, address, port):
            return True
        return is_public_address(address) and not is_own_address(address)
