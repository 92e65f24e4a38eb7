"""What Meta reports about sent messages: whether WhatsApp has taken a message, or why it failed.

A call only hands a message over; many errors follow later as a status. Each message carries a key that its
statuses repeat, so that a message is recognised even if the response to its call was lost. Filled by
`receiver`, read by `sender`.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from choir_gateway.channels.whatsapp.cloud_api import CloudApiError, MetaError

MAX_KEYS = 5000


@dataclass(frozen=True, slots=True)
class StatusTag:
    """Identifies one attempt to send one part of a message."""

    part: str
    attempt: str

    def __str__(self) -> str:
        return f"{self.part}:{self.attempt}"

    @staticmethod
    def parse(text: str) -> "StatusTag | None":
        """Return the key in a status; None if the message is not a part of a delivery."""
        part, colon, attempt = text.rpartition(":")
        return StatusTag(part, attempt) if colon and part else None


@dataclass(slots=True)
class _PartStatus:
    """What is known about the attempts to send one part."""

    change: asyncio.Event = field(default_factory=asyncio.Event)
    message_id: str | None = None
    """The id of the attempt that WhatsApp has taken."""
    failures: dict[str, MetaError] = field(default_factory=dict)
    """The errors by attempt."""


class StatusBoard:
    """The statuses of the newest messages of one number."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, _PartStatus] = OrderedDict()

    def note_success(self, key: StatusTag, message_id: str) -> None:
        """Note that WhatsApp has taken a part."""
        status = self._find(key.part)
        status.message_id = message_id
        status.change.set()

    def note_failure(self, key: StatusTag, error: MetaError) -> bool:
        """Note that an attempt failed; return whether WhatsApp had taken the part before."""
        status = self._find(key.part)
        status.failures[key.attempt] = error
        status.change.set()
        return status.message_id is not None

    def taken_id(self, part: str) -> str | None:
        """Return the id of a part that WhatsApp has taken; None if no status says so."""
        status = self._parts.get(part)
        return status.message_id if status else None

    async def wait(self, key: StatusTag, timeout_s: float) -> str | None:
        """Wait until WhatsApp has taken the part; return its id, or None if no status arrives in time.

        Raises CloudApiError if this attempt failed.
        """
        status = self._find(key.part)
        try:
            async with asyncio.timeout(timeout_s):
                while status.message_id is None and key.attempt not in status.failures:
                    status.change.clear()
                    await status.change.wait()
        except TimeoutError:
            return None
        if status.message_id is not None:
            return status.message_id
        raise CloudApiError(status.failures[key.attempt])

    def _find(self, part: str) -> _PartStatus:
        status = self._parts.setdefault(part, _PartStatus())
        while len(self._parts) > MAX_KEYS:
            self._parts.popitem(last=False)
        return status
