"""Connections of an agent's tool calls, until the agent takes them for its log."""

from collections import OrderedDict
from dataclasses import dataclass, field

from choir_common.wire.connections import (
    MAX_CONNECTED_HOSTS,
    CallConnections,
    ConnectionDecision,
    HostConnections,
)
from choir_egress.traffic import ByteCounter, ProxyConnection

MAX_CALLS = 256
"""Calls whose connections are kept; the oldest are dropped, for example those of an agent that was killed."""

_Key = tuple[str, int, ConnectionDecision]


@dataclass(slots=True)
class _HostTotals:
    connections: int = 0
    up: ByteCounter = field(default_factory=ByteCounter)
    down: ByteCounter = field(default_factory=ByteCounter)

    def add(self, account: ProxyConnection) -> None:
        """Add a connection, with the bytes that it will still transfer."""
        self.connections += 1
        account.up.add_to(self.up)
        account.down.add_to(self.down)

    def remove(self, account: ProxyConnection) -> None:
        """Remove a connection and its bytes."""
        self.connections -= 1
        account.up.leave_total()
        account.down.leave_total()


class CallAccounts:
    """Sums of connections by call, host, port and decision; in memory only."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, dict[_Key, _HostTotals]] = OrderedDict()

    def count(self, account: ProxyConnection, decision: ConnectionDecision) -> None:
        """Count a connection of a tool call; its bytes may still grow.

        A connection that was counted before is then counted with this decision only.
        """
        if not account.user.tool:
            return
        hosts = self._calls.setdefault(account.user.call_id, {})
        for key, totals in list(hosts.items()):
            if totals.up is account.up.total:
                totals.remove(account)
                if not totals.connections:
                    del hosts[key]
        key = (account.host, account.port, decision)
        if key in hosts or len(hosts) < MAX_CONNECTED_HOSTS:
            hosts.setdefault(key, _HostTotals()).add(account)
        while len(self._calls) > MAX_CALLS:
            self._calls.popitem(last=False)

    def take(self, call_id: str) -> CallConnections:
        """Return the connections of a call up to now, and forget them."""
        hosts = self._calls.pop(call_id, {})
        return CallConnections(
            hosts=tuple(
                HostConnections(
                    host=host,
                    port=port,
                    decision=decision,
                    connections=totals.connections,
                    bytes_up=totals.up.count,
                    bytes_down=totals.down.count,
                )
                for (host, port, decision), totals in hosts.items()
            )
        )
