"""Reactions by which the account acknowledges the messages that control has stored.

Best effort: no message waits for a reaction, and one that cannot be sent is dropped.
"""

import asyncio
from collections import deque

import structlog

from choir_common.errors import ChoirError
from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.signal.addresses import SignalMessageId, hyphenate
from choir_gateway.channels.signal.api_client import SignalApi

log = structlog.get_logger("choir.gateway.signal")

MAX_PENDING = 100
"""If more messages arrive while Signal limits the rate, the oldest ones get no reaction."""


class SignalAcknowledger:
    """Queue of the reactions of one account."""

    def __init__(self, api: SignalApi, emoji: AcknowledgementEmoji | None) -> None:
        self._api = api
        self._emoji = emoji
        """None: no reactions are set."""
        self._pending: deque[tuple[str, SignalMessageId]] = deque(maxlen=MAX_PENDING)
        self._arrival = asyncio.Event()

    def add(self, address: str, message: SignalMessageId) -> None:
        """Queue the reaction to a user's message; returns at once."""
        if self._emoji is not None and message.author is not None:
            self._pending.append((address, message))
            self._arrival.set()

    async def run(self) -> None:
        """Set reactions until cancelled."""
        while True:
            self._arrival.clear()
            while self._pending:
                await self._set_next()
            await self._arrival.wait()

    async def _set_next(self) -> None:
        address, message = self._pending.popleft()
        if self._emoji is None or message.author is None:
            return
        try:
            await self._api.react(
                address, self._emoji, author=hyphenate(message.author), timestamp=message.timestamp
            )
        except (ChoirError, RefusedError) as error:
            log.debug("reaction not set", error=str(error))
        except Exception:  # outermost loop of the reactions: messages must not stop
            log.exception("reaction not set")
