"""Reactions by which an app acknowledges the messages that control has stored.

Best effort: no message waits for a reaction, and one that cannot be set is dropped.
"""

import asyncio
from collections import deque

import structlog

from choir_common.errors import ChoirError
from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.slack.errors import SlackAccessError
from choir_gateway.channels.slack.message_calls import SlackMessageCalls

log = structlog.get_logger("choir.gateway.slack")

NAMES: dict[AcknowledgementEmoji, str] = {
    "👀": "eyes",
    "👍": "thumbsup",
    "👌": "ok_hand",
    "✍": "writing_hand",
    "🫡": "saluting_face",
}
"""Slack's names of the emojis."""
CALL_TIMEOUT_S = 30.0
MAX_PENDING = 100
"""If more messages arrive while Slack limits the rate, the oldest ones get no reaction."""


class SlackAcknowledger:
    """Queue of the reactions of one app."""

    def __init__(self, calls: SlackMessageCalls, emoji: AcknowledgementEmoji | None) -> None:
        self._calls = calls
        self._name = NAMES[emoji] if emoji else None
        """None: the app sets no reactions."""
        self._pending: deque[tuple[str, str]] = deque(maxlen=MAX_PENDING)
        self._arrival = asyncio.Event()

    def add(self, user_id: str, message_ts: str) -> None:
        """Queue the reaction to a message; returns at once."""
        if self._name is not None:
            self._pending.append((user_id, message_ts))
            self._arrival.set()

    async def run(self) -> None:
        """Set reactions until cancelled."""
        while True:
            self._arrival.clear()
            while self._pending and self._name is not None:
                await self._set_next(self._name)
            await self._arrival.wait()

    async def _set_next(self, name: str) -> None:
        user_id, message_ts = self._pending.popleft()
        deadline = asyncio.get_running_loop().time() + CALL_TIMEOUT_S
        try:
            await self._calls.react(user_id, message_ts, name, deadline=deadline)
        except SlackAccessError as error:
            self._pending.clear()
            log.warning("no reactions are set", error=error.message)
        except (ChoirError, RefusedError) as error:
            # The user has deleted the message, for example.
            log.debug("reaction not set", error=str(error))
        except Exception:  # outermost loop of the reactions: messages must not stop
            log.exception("reaction not set")
