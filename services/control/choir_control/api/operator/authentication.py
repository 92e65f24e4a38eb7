"""Authentication of operators: by file permission on the Unix socket, by the operator token over TCP.

A dependency of every `/v1` route and of `/metrics`; the latter also accepts a token of its own. A
process that descends from control is an agent or an agent's tool. On the socket it is refused
regardless of its user; over TCP it would need the token.

Check whether a process descends from this one: an agent, or a tool of an agent.

Called by `admission`. The process runtime makes control a subreaper (`adopt_orphans`), so a process
cannot leave this tree by outliving its parents.
"""

import hmac
import os
from collections.abc import Callable
from pathlib import Path

from fastapi import Request

from choir_common.errors import Forbidden, Unauthorized
from choir_common.http.http_protocol import UNIX_PEER
from choir_control.api.rpc.caller import read_bearer_token, read_headers


class OperatorAuthentication:
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
            read_bearer_token(read_headers(request.scope)).encode(), self._token.encode()
        ):
            raise Unauthorized("The operator token is not the right one.")


class MetricsAuthentication:
    """Access check of `/metrics`: operators, and clients with the secret `metrics-token`."""

    def __init__(self, operators: OperatorAuthentication, token: Callable[[], str | None]) -> None:
        """`token` is called for each request, because `secret apply` changes it."""
        self._operators = operators
        self._token = token

    async def __call__(self, request: Request) -> None:
        """Return for a valid client; raises as `OperatorAuthentication` does."""
        token, given = self._token(), request.headers.get("authorization", "")
        if token and hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return
        await self._operators(request)


MAX_ANCESTORS = 200


def is_descendant(pid: int) -> bool:
    """Return whether `pid` is a descendant of this process; True also for a process that has exited."""
    ours = os.getpid()
    if pid == ours:
        return False
    for _ in range(MAX_ANCESTORS):
        parent = _parent_of(pid)
        if parent is None or parent == ours:
            return True
        if parent <= 1:
            return False
        pid = parent
    return True


def _parent_of(pid: int) -> int | None:
    try:
        # The second field is the program's name in parentheses, and may contain any character.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[1])
    except (OSError, IndexError, ValueError):
        return None
