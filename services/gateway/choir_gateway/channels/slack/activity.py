"""The calls that show typing and progress cards on Slack; `channels.activity` decides when.

Slack shows no typing of apps. The sign is a reaction on the newest message to the agent, which is
removed when the agent waits again. Drafts of replies are not shown: a draft that is a message would stay
as half an answer after a crash.
"""

import asyncio
from typing import ClassVar

import structlog

from choir_common.errors import ChoirError
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.slack.addresses import parse_group
from choir_gateway.channels.slack.message_calls import SlackMessageCalls
from choir_gateway.channels.slack.parts import make_card_part
from choir_gateway.channels.slack.read_marks import SlackReadMarkStore

log = structlog.get_logger("choir.gateway.slack")

TYPING_EMOJI = "hourglass_flowing_sand"
CALL_TIMEOUT_S = 20.0
CLEAR_TIMEOUT_S = 5.0


class SlackActivityCalls:
    """Typing sign and cards of one app; implements `ActivityCalls`."""

    # No call while the sign is there; a message that has just been stored gets it soon.
    typing_s: ClassVar[float] = 1.0

    def __init__(self, calls: SlackMessageCalls, marks: SlackReadMarkStore) -> None:
        self._calls = calls
        self._marks = marks
        self._signs: dict[str, str] = {}
        """The message with the sign, by user."""

    def is_free(self, user_id: str) -> bool:
        """Return whether the rate limit leaves room for a card."""
        return self._calls.is_free(user_id)

    async def show_typing(self, user_id: str) -> None:
        """Put the sign on the user's newest message."""
        newest = self._newest(user_id)
        if user_id in self._signs or newest is None:
            return
        # Recorded first: the call may have succeeded without a response.
        self._signs[user_id] = newest
        await self._calls.react(user_id, newest, TYPING_EMOJI, deadline=_deadline())

    async def hide_typing(self, user_id: str) -> None:
        """Remove the sign."""
        message_ts = self._signs.pop(user_id, None)
        if message_ts is not None:
            await self._calls.unreact(user_id, message_ts, TYPING_EMOJI, deadline=_deadline())

    async def clear_left_signs(self, user_ids: list[str]) -> None:
        """Remove the signs of a process that ended while an agent was typing."""
        for user_id in user_ids:
            newest = self._newest(user_id)
            if newest is None or user_id in self._signs:
                continue
            deadline = asyncio.get_running_loop().time() + CLEAR_TIMEOUT_S
            try:
                await self._calls.unreact(user_id, newest, TYPING_EMOJI, deadline=deadline)
            except (ChoirError, RefusedError) as error:
                log.debug("typing not hidden", error=str(error))

    async def send_card(self, user_id: str, text: str, key: str) -> str:
        """Send a card; return the id of its message."""
        return await self._calls.send(user_id, make_card_part(text), deadline=_deadline())

    async def edit_card(self, user_id: str, message_id: str, text: str) -> None:
        """Replace the text of a card."""
        await self._calls.edit(user_id, message_id, make_card_part(text), deadline=_deadline())

    def _newest(self, user_id: str) -> str | None:
        """Return the newest message to the agent; None if no message was read yet."""
        mark = self._marks.find(user_id)
        if mark is None or not mark.recent:
            return None
        return mark.newest if parse_group(user_id) is None else mark.newest_heard


def _deadline() -> float:
    return asyncio.get_running_loop().time() + CALL_TIMEOUT_S
