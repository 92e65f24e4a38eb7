"""Let operators in: on the Unix socket by file permission, on TCP by the operator token.

A dependency of every `/v1` route, and of `/metrics`, which a token of its own opens as well. A process that
descends from control is an agent or its tool, and is refused on the socket whatever its user; on TCP it would
need the token.
"""

import hmac
from collections.abc import Callable

from fastapi import Request

from choir_common.errors import Forbidden, Unauthorized
from choir_common.http.peer import UNIX_PEER
from choir_control.rpc.caller import bearer_of, headers_of


class Admission:
    """Who may use `/v1`."""

    def __init__(self, operator_token: str | None, is_descendant: Callable[[int], bool]) -> None:
        self._token = operator_token
        self._is_descendant = is_descendant

    async def __call__(self, request: Request) -> None:
        """Return for an operator; raises Unauthorized or Forbidden for anybody else."""
        peer = request.client
        if peer is not None and peer.host == UNIX_PEER:
            # pid 0: the peer lives in another pid namespace, so the file permission has spoken
            if peer.port and self._is_descendant(peer.port):
                raise Forbidden("Agents and their tools may not use the operator API.")
            return
        if self._token is None:
            raise Unauthorized(
                "The operator API is open on the Unix socket only: there is no operator token."
            )
        if not hmac.compare_digest(
            bearer_of(headers_of(request.scope)).encode(), self._token.encode()
        ):
            raise Unauthorized("The operator token is not the right one.")


class MetricsAdmission:
    """Who may read the figures: operators, and whoever has the secret `metrics-token`."""

    def __init__(self, operators: Admission, token: Callable[[], str | None]) -> None:
        """`token` is asked at each request: `secret apply` changes it."""
        self._operators = operators
        self._token = token

    async def __call__(self, request: Request) -> None:
        """Return for either; raises as `Admission` does."""
        token, given = self._token(), request.headers.get("authorization", "")
        if token and hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return
        await self._operators(request)
