"""Account of one connection: bytes in each direction, as a log line and in the metrics."""

from dataclasses import dataclass, field

import structlog

from choir_common.egress.credentials import ProxyIdentity
from choir_common.metrics import Metrics
from choir_common.wire.connections import ConnectionDecision

log = structlog.get_logger("choir.egress")


@dataclass(slots=True)
class ByteCounter:
    """Counts bytes in one direction; never ends a transfer."""

    count: int = 0
    total: "ByteCounter | None" = None
    """Sum over all connections of a call to the host."""

    def add_to(self, total: "ByteCounter") -> None:
        """Count in `total`, too."""
        self.total = total
        total.count += self.count

    def leave_total(self) -> None:
        """Subtract from the total what was counted, and count alone."""
        if self.total is not None:
            self.total.count -= self.count
            self.total = None

    def consume(self, count: int) -> bool:
        """Count bytes."""
        self.count += count
        if self.total is not None:
            self.total.count += count
        return True


@dataclass(frozen=True, slots=True)
class ProxyConnection:
    """Who connects to which host, and how much was transferred."""

    agent_id: str
    user: ProxyIdentity
    host: str
    port: int
    up: ByteCounter = field(default_factory=ByteCounter)
    down: ByteCounter = field(default_factory=ByteCounter)


class TrafficLog:
    """Writes one line per connection, and counts connections and bytes."""

    def __init__(self, metrics: Metrics) -> None:
        self._connections = metrics.counter(
            "choir_egress_connections", "Connections of agents.", "decision"
        )
        self._bytes = metrics.counter("choir_egress_bytes", "Bytes of agents.", "direction")

    def record_end(self, account: ProxyConnection) -> None:
        """Record a connection that has ended."""
        self._connections.labels("allowed").inc()
        self._bytes.labels("up").inc(account.up.count)
        self._bytes.labels("down").inc(account.down.count)
        self._write(account, "allowed", "")

    def record_refusal(
        self, account: ProxyConnection, decision: ConnectionDecision, reason: str
    ) -> None:
        """Record a connection that was refused or failed."""
        self._connections.labels(decision).inc()
        self._write(account, decision, reason)

    def _write(self, account: ProxyConnection, decision: str, reason: str) -> None:
        # The model calls of an agent are logged by the agent itself.
        write = log.info if account.user.tool else log.debug
        write(
            "egress",
            decision=decision,
            agent=account.agent_id,
            tool=account.user.tool,
            call_id=account.user.call_id,
            host=account.host,
            port=account.port,
            bytes_up=account.up.count,
            bytes_down=account.down.count,
            reason=reason,
        )
