"""The queue of one DM's undelivered messages. Pure; driven by `OutboxWorker`.

A message is queued directly by the append that inserted it. The table is read only when the queue
may be incomplete: after a start, and after an append with an unknown outcome.
"""

from collections.abc import Sequence

from choir_common.wire.messages import DeliveryReceipt, OutboundMessage


class DeliveryQueue:
    """Undelivered messages in order of id; `rescan` requests that the table be read first."""

    def __init__(self) -> None:
        self.rescan = False
        self.receipt: DeliveryReceipt | None = None
        """The result for the first message, until it is stored in the table."""
        self._queue: list[OutboundMessage] = []
        self._delivered_id = 0

    def offer(self, message: OutboundMessage) -> None:
        """Queue a message that was just stored, unless it was delivered after a read of the table."""
        if message.outbox_id > self._delivered_id:
            self.add([message])

    def add(self, messages: Sequence[OutboundMessage]) -> None:
        """Queue undelivered messages from the table."""
        queued_ids = {message.outbox_id for message in self._queue}
        fresh = [m for m in messages if m.outbox_id not in queued_ids]
        if fresh:
            self._queue = sorted([*self._queue, *fresh], key=lambda m: m.outbox_id)

    @property
    def first(self) -> OutboundMessage | None:
        """Return the message to deliver next, or None."""
        return self._queue[0] if self._queue else None

    def replace_first(self, message: OutboundMessage) -> None:
        """Replace the first message by an updated copy."""
        self._queue[0] = message

    def remove_first(self) -> None:
        """Remove the first message, because its row is closed."""
        self._delivered_id = max(self._delivered_id, self._queue.pop(0).outbox_id)
        self.receipt = None

    @property
    def idle(self) -> bool:
        """Return True if nothing is left to deliver or to read."""
        return not self._queue and not self.rescan
