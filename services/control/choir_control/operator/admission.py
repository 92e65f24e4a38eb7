"""Authentication of operators: by file permission on the Unix socket, by the operator token over TCP.

A dependency of every `/v1` route and of `/metrics`; the latter also accepts a token of its own. A
process that descends from control is an agent or an agent's tool. On the socket it is refused
regardless of its user; over TCP it would need the token.
"""

import hmac
from collections.abc import Callable

from fastapi import Request

from choir_common.errors import Forbidden, Unauthorized
from choir_common.http.peer import UNIX_PEER
from choir_control.rpc.caller import bearer_of, headers_of


class Admission:
    """Access check of `/v1`."""

    def __init__(self, operator_token: str | None, is_descendant: Callable[[int], bool]) -> None:
        self._token = operator_token
        self._is_descendant = is_descendant

    async def __call__(self, request: Request) -> None:
        """Return for an operator; raises Unauthorized or Forbidden otherwise."""
        peer = request.client
        if peer is not None and peer.host == UNIX_PEER:
            # pid 0: the peer lives in another pid namespace (a container); it passed the file
            # permission
            if peer.port and self._is_descendant(peer.port):
                raise Forbidden("Agents and their tools may not use the operator API.")
            return
        if self._token is None:
            raise Unauthorized(
                "The operator API is open on the Unix socket only: there is no operator token."
            )
        # constant time: the response time must not reveal how much of a guess is right
        if not hmac.compare_digest(
            bearer_of(headers_of(request.scope)).encode(), self._token.encode()
        ):
            raise Unauthorized("The operator token is not the right one.")


class MetricsAdmission:
    """Access check of `/metrics`: operators, and clients with the secret `metrics-token`."""

    def __init__(self, operators: Admission, token: Callable[[], str | None]) -> None:
        """`token` is called for each request, because `secret apply` changes it."""
        self._operators = operators
        self._token = token

    async def __call__(self, request: Request) -> None:
        """Return for a valid client; raises as `Admission` does."""
        token, given = self._token(), request.headers.get("authorization", "")
        if token and hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return
        await self._operators(request)
