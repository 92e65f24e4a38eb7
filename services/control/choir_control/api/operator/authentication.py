"""Authentication of operators: by file permission on the Unix socket, by the operator token over TCP.

A process that descends from control is an agent or an agent's tool. On the socket it is refused
regardless of its user; over TCP it would need the token.
"""

import hmac
import os

from fastapi import Request

from choir_common.errors import Forbidden, Unauthorized
from choir_common.http.http_protocol import UNIX_PEER
from choir_control.api.rpc.caller import read_bearer_token, read_headers
from choir_control.configuration.secrets.store import SecretStore

METRICS_TOKEN = "metrics-token"  # noqa: S105 - a secret's name
MAX_ANCESTORS = 200
STAT_BYTES = 4096
"""Longer than any /proc/PID/stat."""


class ProcessTree:
    """The descendants of this process: agents, and their tools.

    The process runtime makes control a subreaper, so a process cannot leave this tree by outliving
    its parents.
    """

    def is_descendant(self, pid: int) -> bool:
        """Return whether `pid` descends from this process; True also for one that has exited."""
        own_pid = os.getpid()
        if pid == own_pid:
            return False
        for _ in range(MAX_ANCESTORS):
            parent = _parent_of(pid)
            if parent is None or parent == own_pid:
                return True
            if parent <= 1:
                return False
            pid = parent
        return True


class OperatorAuthentication:
    """Access check of `/v1`."""

    def __init__(self, operator_token: str | None, processes: ProcessTree) -> None:
        self._token = operator_token
        self._processes = processes

    async def __call__(self, request: Request) -> None:
        """Return for an operator; raises Unauthorized or Forbidden otherwise."""
        peer = request.client
        if peer is not None and peer.host == UNIX_PEER:
            # pid 0: the peer lives in another pid namespace (a container); it passed the file
            # permission
            if peer.port and self._processes.is_descendant(peer.port):
                raise Forbidden("Agents and their tools may not use the operator API.")
            return
        if self._token is None:
            raise Unauthorized(
                "The operator API is available on the Unix socket only: no operator token is set."
            )
        # constant time: the response time must not reveal how much of a guess is right
        if not hmac.compare_digest(
            read_bearer_token(read_headers(request.scope)).encode(), self._token.encode()
        ):
            raise Unauthorized("The operator token is wrong.")


class FileAuthentication:
    """Access check of the files of messages: operators, and the gateway with its token."""

    def __init__(self, operators: OperatorAuthentication, gateway_token: str | None) -> None:
        self._operators = operators
        self._gateway_token = gateway_token

    async def __call__(self, request: Request) -> None:
        """Return for a valid client; raises as `OperatorAuthentication` does."""
        if self._gateway_token is None or not _bears(request, self._gateway_token):
            await self._operators(request)


class MetricsAuthentication:
    """Access check of `/metrics`: operators, and clients with the secret `metrics-token`."""

    def __init__(self, operators: OperatorAuthentication, secrets: SecretStore) -> None:
        self._operators = operators
        self._secrets = secrets

    async def __call__(self, request: Request) -> None:
        """Return for a valid client; raises as `OperatorAuthentication` does."""
        # read for each request, because `secret apply` changes it
        token = self._secrets.get_known((METRICS_TOKEN,)).get(METRICS_TOKEN)
        if not token or not _bears(request, token):
            await self._operators(request)


def _bears(request: Request, token: str) -> bool:
    """Return whether the request has this bearer token."""
    header = request.headers.get("authorization", "")
    return hmac.compare_digest(header.encode(), f"Bearer {token}".encode())


def _parent_of(pid: int) -> int | None:
    try:
        # Read without a file object, in a third of the time: each request reads several of these.
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            content = os.read(stat, STAT_BYTES)
        finally:
            os.close(stat)
        # The second field is the program's name in parentheses, and may contain any character.
        return int(content.rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None
