"""Read receipts and reactions by which the bot acknowledges the messages that control has stored.

Best effort: no message waits for them, and one that cannot be sent is dropped.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError
from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.matrix.message_calls import MatrixMessageCalls

log = structlog.get_logger("choir.gateway.matrix")

MAX_PENDING = 100
"""If more messages arrive while the homeserver limits the rate, the oldest ones are dropped."""
CALL_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class _Acknowledgement:
    room_id: str
    event_id: str
    has_reaction: bool


class EventAcknowledger:
    """Queue of the receipts and reactions of one account."""

    def __init__(self, calls: MatrixMessageCalls, emoji: AcknowledgementEmoji | None) -> None:
        self._calls = calls
        self._emoji = emoji
        """None: the bot sets no reactions."""
        self._pending: deque[_Acknowledgement] = deque(maxlen=MAX_PENDING)
        self._arrival = asyncio.Event()

    def add(self, room_id: str, event_id: str, *, has_reaction: bool) -> None:
        """Queue the receipt, and the reaction to a message that an agent answers; returns at once."""
        self._pending.append(_Acknowledgement(room_id, event_id, has_reaction))
        self._arrival.set()

    async def run(self) -> None:
        """Send receipts and reactions until cancelled."""
        while True:
            self._arrival.clear()
            while self._pending:
                await self._send(self._pending.popleft())
            await self._arrival.wait()

    async def _send(self, item: _Acknowledgement) -> None:
        deadline = asyncio.get_running_loop().time() + CALL_TIMEOUT_S
        try:
            await self._calls.mark_read(item.room_id, item.event_id, deadline=deadline)
            if item.has_reaction and self._emoji is not None:
                await self._calls.react(item.room_id, item.event_id, self._emoji, deadline=deadline)
        except (RefusedError, ChoirError) as error:
            # The user has deleted the message, for example.
            log.debug("message not acknowledged", error=str(error))
        except Exception:  # outermost loop of the acknowledgements: messages must not stop
            log.exception("message not acknowledged")
