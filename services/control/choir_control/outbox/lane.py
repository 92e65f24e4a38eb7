"""Hold one DM's undelivered messages in order. Pure; driven by `deliver`.

A message goes in from the append that made it, without a look at the table; only after a doubt (a
start, an outcome that was lost) is the table read again.
"""

from collections.abc import Sequence

from choir_common.wire.messages import OutboundMessage, Receipt


class Lane:
    """The queue of one DM; `rescan` asks for a look at the table before the next delivery."""

    def __init__(self) -> None:
        self.rescan = False
        self.receipt: Receipt | None = None
        """What became of the first message, until the table knows it too."""
        self._queue: list[OutboundMessage] = []
        self._taken = 0

    def offer(self, message: OutboundMessage) -> None:
        """Add a message that was just stored, unless a look at the table has found it before."""
        if message.outbox_id > self._taken:
            self.add([message])

    def add(self, messages: Sequence[OutboundMessage]) -> None:
        """Add open messages from the table."""
        known = {message.outbox_id for message in self._queue}
        fresh = [m for m in messages if m.outbox_id not in known]
        if fresh:
            self._queue = sorted([*self._queue, *fresh], key=lambda m: m.outbox_id)

    @property
    def first(self) -> OutboundMessage | None:
        """Return the message whose turn it is."""
        return self._queue[0] if self._queue else None

    def replace_first(self, message: OutboundMessage) -> None:
        """Keep what became known about the first message."""
        self._queue[0] = message

    def finish_first(self) -> None:
        """Drop the first message: it is closed in the table."""
        self._taken = max(self._taken, self._queue.pop(0).outbox_id)
        self.receipt = None

    @property
    def idle(self) -> bool:
        """Tell whether nothing is left to do."""
        return not self._queue and not self.rescan
