"""Client for the account of a tool call's connections, which the egress proxy keeps until it is read."""

import asyncio

import structlog

from choir_agent.egress.route import EgressAddress
from choir_common.egress.credentials import ProxyIdentity, basic_authorization, plain_call_id
from choir_common.wire.connections import CallConnections, HostConnections
from choir_common.wire.egress import CALLS_PATH

log = structlog.get_logger("choir.agent.egress")

TIMEOUT_S = 5.0
MAX_BYTES = 100_000
SUCCESS = b"HTTP/1.1 200 "


class ConnectionAccounts:
    """Reads which hosts a tool call contacted; without a proxy there is nothing to read."""

    def __init__(self, route: EgressAddress | None) -> None:
        self._route = route

    async def take(self, call_id: str) -> tuple[HostConnections, ...]:
        """Return the connections of a call that has ended, once.

        They are accounts and no condition of the call, so a proxy that does not answer is only logged.
        """
        if self._route is None:
            return ()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                body = await _fetch(self._route, f"{CALLS_PATH}{plain_call_id(call_id)}")
            return CallConnections.model_validate_json(body).hosts
        except (OSError, TimeoutError, ValueError) as error:
            log.warning(
                "connections of a call not read", call_id=call_id, error=type(error).__name__
            )
            return ()


async def _fetch(route: EgressAddress, path: str) -> bytes:
    """Return the body of an answer; raises OSError. An HTTP client for each call costs 3 ms of CPU."""
    reader, writer = await asyncio.open_unix_connection(route.socket)
    try:
        authorization = basic_authorization(route.key, ProxyIdentity())
        writer.write(
            f"GET {path} HTTP/1.1\r\nProxy-Authorization: {authorization}\r\n\r\n".encode()
        )
        # the proxy closes the connection after its answer
        answer = b""
        while len(answer) < MAX_BYTES and (part := await reader.read(MAX_BYTES)):
            answer += part
    finally:
        writer.close()
    if not answer.startswith(SUCCESS):
        raise OSError(answer[:100].decode(errors="replace"))
    return answer.partition(b"\r\n\r\n")[2]


NO_PROXY = ConnectionAccounts(None)
