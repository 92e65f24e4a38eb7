"""Typing indicators and progress cards; each card is one message, edited in place.

Filled by `channel`, which also runs it. Best effort: messages have priority, the last state of a
card is shown eventually, and a missed update is repeated by a later one.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, assert_never

import structlog
from telegram import Bot
from telegram.constants import ChatAction
from telegram.error import BadRequest, Forbidden, RetryAfter, TelegramError

from choir_common.clients.control import ControlClient
from choir_common.errors import ChoirError
from choir_common.wire.activity import Card, CardMessage, DmActivity, Draft, Idle, Typing
from choir_gateway.channels.telegram.api_call import NO_PREVIEW, RateLimiter, retry_after_s

log = structlog.get_logger("choir.gateway.telegram")

# Telegram shows "typing" for five seconds.
TYPING_S = 4.0
EDIT_S = 3.0
BUSY_S = 1.0
MAX_CARDS = 500
# A card that could not be shown this often is dropped; its job has moved on by then.
MAX_ATTEMPTS = 20


@dataclass(slots=True)
class _TypingState:
    until: float
    next: float = 0.0


@dataclass(slots=True)
class _ProgressCard:
    """A card and the state of its message."""

    dm: str
    card: Card
    message_id: str | None
    text: str = ""
    is_stored: bool = False
    next: float = 0.0
    tries: int = 0

    @property
    def due(self) -> float:
        """Return the time of the next update, or infinity if the message is current."""
        return math.inf if self.text == self.card.text and self.is_stored else self.next


State = TypeVar("State", _TypingState, _ProgressCard)


class ActivityDisplay:
    """Display of the activity in the chats of one bot."""

    def __init__(self, bot: Bot, pace: RateLimiter, control: ControlClient) -> None:
        self._bot = bot
        self._pace = pace
        self._control = control
        self._typing: dict[str, _TypingState] = {}
        self._cards: OrderedDict[tuple[str, str], _ProgressCard] = OrderedDict()
        self._news = asyncio.Event()

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Queue an activity; it is shown soon."""
        match activity.what:
            case Typing(lasts_s=lasts_s):
                before = self._typing.get(user_id, _TypingState(0))
                self._typing[user_id] = _TypingState(_now() + lasts_s, before.next)
            case Idle():
                self._typing.pop(user_id, None)
            case Draft():
                return  # `drafts` shows it
            case Card() as card:
                self._store_card(activity.dm, card, user_id)
            case other:
                assert_never(other)
        self._news.set()

    async def run(self) -> None:
        """Show activities until cancelled."""
        while True:
            self._news.clear()
            async with asyncio.TaskGroup() as tasks:
                for update in self._due():
                    tasks.create_task(self._run_update(update))
            try:
                async with asyncio.timeout_at(self._next()):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _run_update(self, update: Callable[[], Awaitable[None]]) -> None:
        try:
            await update()
        except Exception:  # outermost loop of the activities: messages must not stop
            log.exception("activity not shown")

    def _store_card(self, dm: str, card: Card, user_id: str) -> None:
        key = (user_id, card.card_id)
        progress_card = self._cards.get(key)
        if progress_card is None:
            # After a restart the message of a card is known but its text is not, so it is edited
            # even if it may be current.
            progress_card = _ProgressCard(
                dm, card, card.message_id, is_stored=card.message_id is not None
            )
            self._cards[key] = progress_card
            if len(self._cards) > MAX_CARDS:
                self._cards.popitem(last=False)
        elif not progress_card.card.done:
            progress_card.card = card

    def _due(self) -> list[Callable[[], Awaitable[None]]]:
        now, due = _now(), list[Callable[[], Awaitable[None]]]()
        for user_id, typing in list(self._typing.items()):
            if typing.until <= now:
                del self._typing[user_id]
            elif typing.next <= now:
                due.append(_bound(self._send_typing, user_id, typing))
        for (user_id, _), card in list(self._cards.items()):
            if card.due <= now:
                due.append(_bound(self._update_card, user_id, card))
        return due

    def _next(self) -> float:
        times = [min(typing.next, typing.until) for typing in self._typing.values()]
        # `inf` is not a valid time for the loop; an additional wakeup per minute costs nothing.
        return min([*times, *(card.due for card in self._cards.values()), _now() + 60])

    async def _send_typing(self, user_id: str, typing: _TypingState) -> None:
        typing.next = _now() + TYPING_S
        try:
            await self._bot.send_chat_action(int(user_id), ChatAction.TYPING)
        except RetryAfter as error:
            typing.next = _now() + retry_after_s(error)
        except TelegramError as error:
            log.debug("typing not shown", error=error.message)

    async def _update_card(self, user_id: str, progress_card: _ProgressCard) -> None:
        """Update the message of a card; after a failure try again later."""
        # Replies have priority over cards.
        if progress_card.text != progress_card.card.text and not self._pace.is_free(user_id):
            progress_card.next = _now() + BUSY_S
            return
        progress_card.tries += 1
        progress_card.next = _now() + EDIT_S
        try:
            if progress_card.text != progress_card.card.text:
                await self._send_card(user_id, progress_card)
            if not progress_card.is_stored and progress_card.message_id is not None:
                await self._control.keep_card(
                    CardMessage(
                        dm=progress_card.dm,
                        card_id=progress_card.card.card_id,
                        message_id=progress_card.message_id,
                    )
                )
                progress_card.is_stored = True
            progress_card.tries = 0
        except RetryAfter as error:
            progress_card.next = _now() + retry_after_s(error)
        except Forbidden:
            progress_card.tries = MAX_ATTEMPTS
        except (TelegramError, ChoirError) as error:
            log.debug("card not shown", dm=progress_card.dm, error=str(error))
        # A finished card stays in memory: if it is repeated, it must not become a second message.
        if progress_card.tries >= MAX_ATTEMPTS:
            self._cards.pop((user_id, progress_card.card.card_id), None)

    async def _send_card(self, user_id: str, progress_card: _ProgressCard) -> None:
        text = progress_card.card.text
        await self._pace.wait(user_id, _now() + BUSY_S)
        if progress_card.message_id is not None and await self._edit(
            user_id, progress_card.message_id, text
        ):
            progress_card.text = text
            return
        message = await self._bot.send_message(
            int(user_id), text, disable_notification=True, link_preview_options=NO_PREVIEW
        )
        progress_card.message_id, progress_card.text, progress_card.is_stored = (
            str(message.message_id),
            text,
            False,
        )

    async def _edit(self, user_id: str, message_id: str, text: str) -> bool:
        """Edit the message; return False if it is gone and must be sent again."""
        try:
            await self._bot.edit_message_text(
                text, int(user_id), int(message_id), link_preview_options=NO_PREVIEW
            )
        except BadRequest as error:
            return "is not modified" in error.message
        return True


def _now() -> float:
    return asyncio.get_running_loop().time()


def _bound(
    update: Callable[[str, State], Awaitable[None]], user_id: str, state: State
) -> Callable[[], Awaitable[None]]:
    return lambda: update(user_id, state)
